package import ApusWire

/// The payload that `apus send` builds from options.
///
/// Source of the keys: Generating a remote notification.
package struct MessagePayload: Sendable {
  package var alert: String?
  package var title: String?
  package var subtitle: String?
  package var badge: Int?
  package var sound: String?
  package var isContentAvailable = false

  package init(_ invocation: Invocation) {
    alert = invocation[ApusOptions.alert]
    title = invocation[ApusOptions.title]
    subtitle = invocation[ApusOptions.subtitle]
    badge = invocation[ApusOptions.badge]
    sound = invocation[ApusOptions.sound]
    isContentAvailable = invocation.isOn(ApusOptions.contentAvailable)
  }

  /// Whether a user sees or hears something.
  package var isVisible: Bool {
    alert != nil || title != nil || subtitle != nil || badge != nil || sound != nil
  }

  package var isEmpty: Bool { !isVisible && !isContentAvailable }

  package var json: JSONValue {
    let text: JSONValue? =
      if title == nil, subtitle == nil {
        // The short form, which all versions of all clients understand.
        alert.map(JSONValue.string)
      } else {
        .members([
          "title": title.map(JSONValue.string), "subtitle": subtitle.map(JSONValue.string),
          "body": alert.map(JSONValue.string),
        ])
      }
    let aps = JSONValue.members([
      "alert": text, "badge": badge.map { .integer(Int64($0)) },
      "sound": sound.map(JSONValue.string),
      "content-available": isContentAvailable ? .integer(1) : nil,
    ])
    return .members(["aps": aps])
  }
}
