import ApusWire

/// The payload of a notification that a person sees, hears, or finds as a number on an icon.
///
/// Source: "Generating a remote notification". Whoever needs more keys than these builds the JSON, as
/// ``PushRequest/payload`` takes any.
public struct AlertPayload: Sendable, Hashable {
  public var title: String?
  public var subtitle: String?
  public var body: String?
  /// The number on the app's icon; 0 takes it away.
  public var badge: Int?
  /// A sound file of the app, or `default`.
  public var sound: String?
  /// The notification's category, which decides about its actions.
  public var category: String?
  /// Notifications with the same one are shown as a group.
  public var threadID: String?

  public init(
    title: String? = nil, subtitle: String? = nil, body: String? = nil, badge: Int? = nil,
    sound: String? = nil, category: String? = nil, threadID: String? = nil
  ) {
    self.title = title
    self.subtitle = subtitle
    self.body = body
    self.badge = badge
    self.sound = sound
    self.category = category
    self.threadID = threadID
  }

  /// The JSON for ``PushRequest/payload``. What is nil is left out.
  public var bytes: [UInt8] {
    var writer = JSONWriter()
    func put(_ name: String, _ text: String?) {
      guard let text else { return }
      writer.key(name)
      writer.string(text)
    }
    writer.beginObject()
    writer.key("aps")
    writer.beginObject()
    if title != nil || subtitle != nil || body != nil {
      writer.key("alert")
      writer.beginObject()
      put("title", title)
      put("subtitle", subtitle)
      put("body", body)
      writer.endObject()
    }
    if let badge {
      writer.key("badge")
      writer.integer(Int64(badge))
    }
    put("sound", sound)
    put("category", category)
    put("thread-id", threadID)
    writer.endObject()
    writer.endObject()
    return writer.bytes
  }
}
