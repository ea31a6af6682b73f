package import ApusDevice
package import ApusWire

/// What a phone shows of a push in a language.
package struct Rendering: Sendable, Hashable {
  package struct LiveActivity: Sendable, Hashable {
    /// start, update or end.
    package var event: String
    package var timestampSeconds: Int64?
    package var staleSeconds: Int64?
    package var dismissalSeconds: Int64?
    package var attributesType: String?
    /// `content-state` and `attributes` as JSON.
    package var state: String?
    package var attributes: String?
  }

  package var presentation: Presentation
  package var liveActivity: LiveActivity?
  package var language: String

  /// Nil if the payload is not a JSON object.
  package init?(payload: [UInt8], language: String, strings: [String: String]) {
    guard let presentation = Presentation(payload: payload, strings: strings) else { return nil }
    self.presentation = presentation
    self.language = language
    guard let aps = (try? JSONValue(parsing: payload.span))?["aps"],
      let event = aps["event"]?.string
    else { return }
    liveActivity = LiveActivity(
      event: event, timestampSeconds: aps["timestamp"]?.integer,
      staleSeconds: aps["stale-date"]?.integer, dismissalSeconds: aps["dismissal-date"]?.integer,
      attributesType: aps["attributes-type"]?.string,
      state: aps["content-state"].map(Self.text), attributes: aps["attributes"].map(Self.text))
  }

  /// Whether there is something to read, and so a banner.
  var hasText: Bool {
    [presentation.title, presentation.subtitle, presentation.body].contains { $0?.isEmpty == false }
  }

  private static func text(_ value: JSONValue) -> String {
    String(decoding: value.bytes, as: UTF8.self)
  }

  package func write(to writer: inout JSONWriter) {
    writer.beginObject()
    writer.text("title", presentation.title)
    writer.text("subtitle", presentation.subtitle)
    writer.text("body", presentation.body)
    writer.text("action", presentation.actionTitle)
    writer.text("launchImage", presentation.launchImage)
    writer.integer("badge", presentation.badge.map(Int64.init))
    writer.text("sound", presentation.sound.map(Self.name))
    writer.text("category", presentation.category)
    writer.text("thread", presentation.thread)
    writer.text("interruptionLevel", presentation.interruptionLevel?.rawValue)
    writer.key("relevance")
    if let relevance = presentation.relevanceScore {
      writer.number(relevance)
    } else {
      writer.null()
    }
    writer.key("liveActivity")
    write(liveActivity, to: &writer)
    writer.key("silent")
    writer.bool(presentation.isSilent && liveActivity == nil)
    writer.key("wakesApp")
    writer.bool(presentation.wakesApp)
    writer.text("language", language)
    writer.endObject()
  }

  private static func name(_ sound: Presentation.Sound) -> String {
    switch sound {
    case .standard: "default"
    case .named(let name): name
    }
  }

  private func write(_ activity: LiveActivity?, to writer: inout JSONWriter) {
    guard let activity else { return writer.null() }
    writer.beginObject()
    writer.text("event", activity.event)
    writer.integer("timestamp", activity.timestampSeconds)
    writer.integer("staleDate", activity.staleSeconds)
    writer.integer("dismissalDate", activity.dismissalSeconds)
    writer.text("attributesType", activity.attributesType)
    for (name, text) in [("state", activity.state), ("attributes", activity.attributes)] {
      writer.key(name)
      let bytes = Array((text ?? "null").utf8)
      writer.value((try? JSONValue(parsing: bytes.span)) ?? .null)
    }
    writer.endObject()
  }
}

extension JSONWriter {
  /// Writes a text member, or null.
  mutating func text(_ name: String, _ value: String?) {
    key(name)
    if let value { string(value) } else { null() }
  }

  mutating func integer(_ name: String, _ value: Int64?) {
    key(name)
    if let value { integer(value) } else { null() }
  }
}
