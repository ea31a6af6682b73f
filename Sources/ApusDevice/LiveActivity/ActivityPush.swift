package import ApusWire

/// A push to a Live Activity as a device reads it.
///
/// Times are Unix seconds. Keys and their meaning: Starting and updating Live Activities with ActivityKit push
/// notifications.
package struct ActivityPush: Sendable, Equatable {
  package enum Event: Sendable, Equatable {
    case start(attributesType: String, attributes: JSONValue, source: ActivitySource)
    case update
    case end(dismissalSeconds: Int64?)
  }

  package var event: Event
  /// The time of the content.
  package var timestampSeconds: Int64
  /// An object; nil only at the end, which then keeps the last one.
  package var contentState: JSONValue?
  /// The texts of the alert, in the device's language.
  package var title: String?
  package var body: String?
  package var staleSeconds: Int64?
  package var relevanceScore: Double?

  /// Reads a payload.
  ///
  /// - Parameters:
  ///   - payload: The JSON text.
  ///   - strings: The app's `Localizable.strings` in the user's language.
  package init(payload: Span<UInt8>, strings: [String: String] = [:]) throws(ActivityDrop) {
    guard let aps = (try? JSONValue(parsing: payload))?["aps"], aps.object != nil,
      let event = aps["event"]
    else { throw .notLiveActivity }
    let name = event.string ?? String(decoding: event.bytes, as: UTF8.self)
    guard let timestamp = Self.seconds(aps["timestamp"]) else { throw .missing("timestamp") }
    timestampSeconds = timestamp
    contentState = aps["content-state"].flatMap { $0.object == nil ? nil : $0 }
    staleSeconds = Self.seconds(aps["stale-date"])
    relevanceScore = aps["relevance-score"]?.number
    switch name {
    case "start": self.event = try Self.start(aps)
    case "update": self.event = .update
    case "end": self.event = .end(dismissalSeconds: Self.seconds(aps["dismissal-date"]))
    default: throw .unknownEvent(name)
    }
    if name != "end", contentState == nil { throw .missing("content-state") }
    let presentation = Presentation(payload: payload, strings: strings)
    title = presentation?.title
    body = presentation?.body
  }

  /// What an app gives when it starts an activity itself.
  package init(
    starting attributesType: String, attributes: JSONValue, source: ActivitySource,
    contentState: JSONValue, staleSeconds: Int64?, relevanceScore: Double?, atSeconds: Int64
  ) {
    event = .start(attributesType: attributesType, attributes: attributes, source: source)
    timestampSeconds = atSeconds
    self.contentState = contentState
    self.staleSeconds = staleSeconds
    self.relevanceScore = relevanceScore
  }

  private static func start(_ aps: JSONValue) throws(ActivityDrop) -> Event {
    guard let type = aps["attributes-type"]?.string, !type.isEmpty else {
      throw .missing("attributes-type")
    }
    guard let attributes = aps["attributes"], attributes.object != nil else {
      throw .missing("attributes")
    }
    guard aps["alert"]?.object != nil || aps["alert"]?.string != nil else {
      throw .missing("alert")
    }
    let channel = aps["input-push-channel"]?.string
    return .start(
      attributesType: type, attributes: attributes,
      source: channel.map(ActivitySource.channel) ?? .token)
  }

  /// Whole seconds; some providers send fractions.
  private static func seconds(_ value: JSONValue?) -> Int64? {
    value?.integer ?? value?.number.flatMap { Int64(exactly: $0.rounded(.down)) }
  }
}

/// How updates reach a Live Activity.
package enum ActivitySource: Sendable, Hashable {
  /// With a token of its own.
  case token
  /// Over the channel with this id.
  case channel(String)
}

/// Why a device drops a push to a Live Activity.
package enum ActivityDrop: Error, Sendable, Hashable {
  /// The payload is not JSON, or `aps` has no `event`.
  case notLiveActivity
  case unknownEvent(String)
  /// A required key is missing, or its value has the wrong type.
  case missing(String)
  /// An update or an end was sent to the push-to-start token.
  case sentToStartToken
  /// A start was sent to an activity's own token, or over a channel.
  case startNotToStartToken
  /// No activity gets pushes this way.
  case noActivity
  /// The activity has content with this later timestamp.
  case olderThan(timestampSeconds: Int64)
  case ended
  /// As many activities are running as the device allows.
  case tooMany
}

extension ActivityDrop: CustomStringConvertible {
  package var description: String {
    switch self {
    case .notLiveActivity: "the payload is not one of a Live Activity: aps.event is missing"
    case .unknownEvent(let name):
      "aps.event is \"\(name.prefix(40))\", but must be start, update or end"
    case .missing(let key): "aps.\(key) is missing or has the wrong type"
    case .sentToStartToken:
      "the token is the app's push-to-start token: an update or an end goes to the activity's own token"
    case .startNotToStartToken:
      "the event is start, but the token is an activity's own: a start goes to the push-to-start token"
    case .noActivity: "no Live Activity gets this push: none was started, or it is gone"
    case .olderThan(let seconds):
      "aps.timestamp is older than \(seconds), the timestamp of the content that the activity shows"
    case .ended: "the activity has ended"
    case .tooMany: "\(LiveActivities.capacity) activities are running, the maximum of the device"
    }
  }
}
