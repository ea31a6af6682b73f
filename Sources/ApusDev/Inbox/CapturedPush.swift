import ApusDevice
package import ApusModel
package import ApusServer

/// A push as its provider sent it, with what became of it.
package struct CapturedPush: Sendable {
  package struct State: Sendable, Hashable {
    package var state: DeliveryState
    /// Unix milliseconds of the service's clock.
    package var milliseconds: Int64
    /// Why, for a person; empty where the state says it all.
    package var cause: String
  }

  /// Counts from 1 as long as the stand-in runs, also over `clear`.
  package var number: UInt64
  package var exchange: ProviderExchange
  /// The virtual device that it is for; nil where the token leads to none.
  package var device: String?
  package var violations: [Violation] = []
  package var states: [State] = []
  /// What the device showed; nil while it has not come there.
  package var shown: Rendering?
  /// As a phone would show it in the device's language, whether or not it came there.
  package var preview: Rendering?

  package init(number: UInt64, exchange: ProviderExchange) {
    self.number = number
    self.exchange = exchange
  }

  package var request: ProviderRequest { exchange.request }

  /// What a matcher sees.
  package var facts: MatchFacts {
    var facts = MatchFacts(exchange.request, device: device, preview: preview)
    facts.apnsID = exchange.apnsID ?? facts.apnsID
    facts.reason = exchange.reason
    facts.status = exchange.status
    return facts
  }

  /// Bytes of memory that it takes, roughly.
  var cost: Int {
    Self.fixedCost + request.payload.count * 2 + request.path.utf8.count + request.token.utf8.count
      + request.headers.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count + 48 }
  }

  // What the structures themselves take, measured with small pushes.
  private static let fixedCost = 1600
}

extension MatchFacts {
  package init(_ request: ProviderRequest, device: String?, preview: Rendering?) {
    token = request.token
    topic = request.topic
    pushType = request.pushType
    environment = request.environment.name
    interface = request.interface.text
    self.device = device
    collapseID = request.collapseID
    let name = "\(HeaderName.apnsID.text)"
    apnsID = request.headers.first { $0.name == name }?.value
    title = preview?.presentation.title
    subtitle = preview?.presentation.subtitle
    body = preview?.presentation.body
    payload = request.payload
  }
}

extension ProviderInterface {
  /// As the API calls it.
  var text: String { self == .http2 ? "http2" : "binary" }
}

extension ProviderExchange {
  /// Whether a token was found to be dead (410).
  var saysDead: Bool { status == Int(Reason.unregistered.status) && request.interface == .http2 }
}
