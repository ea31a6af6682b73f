package import ApusWire

/// What happened to a Live Activity, as `apus listen` prints it.
package struct ActivityLine: Sendable {
  package var topic: String
  /// The name of the event: started, updated, stale, ended, dismissed or dropped.
  package var event: String
  /// The activity's number; nil if the push was dropped.
  package var activity: Int?
  /// The name of the app's attributes type.
  package var attributesType: String?
  /// The content, where the event changes it.
  package var contentState: JSONValue?
  /// Why the push was dropped.
  package var reason: String?

  package init(
    topic: String, event: String, activity: Int? = nil, attributesType: String? = nil,
    contentState: JSONValue? = nil, reason: String? = nil
  ) {
    self.topic = topic
    self.event = event
    self.activity = activity
    self.attributesType = attributesType
    self.contentState = contentState
    self.reason = reason
  }

  /// Maximum characters of a state.
  private static let stateCharacters = 200

  /// One line. Payloads are untrusted: characters that could control the terminal are shown as U+FFFD.
  package var text: String {
    var subject = "Live Activity"
    if let activity { subject += " \(activity)" }
    if let attributesType { subject += " (\(attributesType))" }
    let state = contentState.map { String($0.text.prefix(Self.stateCharacters)) }
    let details = (reason ?? state).map { ": \($0)" } ?? ""
    let line = "\(topic)  \(subject) \(event)\(details)"
    return NotificationCard.harmless(line.replacing("\n", with: " ")) + "\n"
  }

  package var json: JSONValue {
    .members([
      "event": .string("activity"), "topic": .string(topic),
      "activity": activity.map { .integer(Int64($0)) }, "change": .string(event),
      "attributes_type": attributesType.map(JSONValue.string), "content_state": contentState,
      "reason": reason.map(JSONValue.string),
    ])
  }
}
