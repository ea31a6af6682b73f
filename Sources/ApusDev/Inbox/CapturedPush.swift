import ApusDevice
package import ApusModel
package import ApusServer

/// A push as its provider sent it, with its outcome.
package struct CapturedPush: Sendable {
  package struct State: Sendable, Hashable {
    package var state: DeliveryState
    /// Unix milliseconds of the service's clock.
    package var milliseconds: Int64
    /// The cause as text; empty if the state says enough.
    package var cause: String
  }

  /// Counted from 1 since the start of the service; `clear` does not reset it.
  package var number: UInt64
  package var exchange: ProviderExchange
  /// The virtual device of the token; nil if there is none.
  package var device: String?
  package var violations: [Violation] = []
  package var states: [State] = []
  /// What the device showed; nil until the push arrives there.
  package var shown: Rendering?
  /// What the device did with a push to a Live Activity; nil for other pushes, and until the push arrives there.
  package var activity: ActivityOutcome?
  /// The devices that received a broadcast, in the order of their arrival; empty for other pushes.
  private(set) var recipients: [Arrival] = []
  /// What a phone would show in the device's language, whether or not the push arrives.
  package var preview: Rendering?

  package init(number: UInt64, exchange: ProviderExchange) {
    self.number = number
    self.exchange = exchange
  }

  package var request: ProviderRequest { exchange.request }

  /// A device has received it.
  mutating func add(_ arrival: Arrival) {
    guard request.channel != nil else {
      shown = arrival.rendering
      activity = arrival.activity
      return
    }
    recipients.append(arrival)
    shown = shown ?? arrival.rendering
  }

  /// The facts for matchers.
  package var facts: MatchFacts {
    var facts = MatchFacts(exchange.request, device: device, preview: preview)
    facts.apnsID = exchange.apnsID ?? facts.apnsID
    facts.reason = exchange.reason
    facts.status = exchange.status
    return facts
  }

  /// Approximate memory in bytes.
  var cost: Int {
    Self.fixedCost + request.payload.count * 2 + request.path.utf8.count + request.token.utf8.count
      + request.headers.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count + 48 }
      + recipients.count * Self.recipientCost
  }

  // The size of the structures, measured with small pushes.
  private static let fixedCost = 1600
  private static let recipientCost = MemoryLayout<Arrival>.stride
}

extension MatchFacts {
  package init(_ request: ProviderRequest, device: String?, preview: Rendering?) {
    token = request.token
    channel = request.channel
    topic = request.topic
    pushType = request.pushType
    environment = request.environment.name
    interface = request.interface.text
    self.device = device
    collapseID = request.collapseID
    let names = (channel == nil ? [HeaderName.apnsID] : [.apnsRequestID, .apnsID]).map {
      "\($0.text)"
    }
    apnsID =
      names.lazy.compactMap { name in
        request.headers.first { $0.name == name }?.value
      }.first
    title = preview?.presentation.title
    subtitle = preview?.presentation.subtitle
    body = preview?.presentation.body
    payload = request.payload
  }
}

extension ProviderInterface {
  /// The name in the API.
  var text: String { self == .http2 ? "http2" : "binary" }
}

extension ProviderExchange {
  /// Whether the response was 410, so the token is invalid.
  var saysDead: Bool { status == Int(Reason.unregistered.status) && request.interface == .http2 }
}
