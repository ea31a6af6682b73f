import ApusWire

/// A notification as `apus listen` shows it on a terminal.
package struct NotificationCard: Sendable {
  package var topic: String
  /// Those of title, subtitle and text that exist, as the device shows them.
  package var texts: [String]
  /// The payload as received.
  package var payload: String
  package var isFromStorage: Bool
  /// The id, in base64, of the channel that it came over; nil for none.
  package var channel: String?
  /// The formatted time for the top line.
  package var time: String

  package init(
    topic: String, texts: [String], payload: String, isFromStorage: Bool, channel: String? = nil,
    time: String
  ) {
    self.topic = topic
    self.texts = texts
    self.payload = payload
    self.isFromStorage = isFromStorage
    self.channel = channel
    self.time = time
  }

  /// A few lines in a box of `columns` columns.
  ///
  /// The payload is untrusted: characters that could control the terminal are shown as U+FFFD.
  package func text(columns: Int?) -> String {
    let width = min(max(columns ?? 80, 40), 72)
    var text = "┌─ \(Self.harmless(topic)) · \(time)"
    if let channel { text += " · channel \(Self.harmless(channel))" }
    text += isFromStorage ? " · was stored\n" : "\n"
    for line in content() {
      for row in Self.rows(of: line, width: width - 2) { text += "│ \(row)\n" }
    }
    return text + "└\n"
  }

  private func content() -> [String] {
    guard let json = JSONValue(text: payload), let aps = json["aps"] else { return [payload] }
    var lines = texts
    var details: [String] = []
    if let badge = aps["badge"]?.integer { details.append("badge \(badge)") }
    if let sound = aps["sound"] {
      details.append("sound \(sound.string ?? sound["name"]?.string ?? "?")")
    }
    if aps["content-available"]?.integer == 1 { details.append("background") }
    if !details.isEmpty { lines.append(details.joined(separator: " · ")) }
    let members = json.object?.members ?? []
    lines += members.filter { $0.key != "aps" }.map { "\($0.key): \($0.value.text)" }
    return lines.isEmpty ? [payload] : lines
  }

  private static func rows(of text: String, width: Int) -> [String] {
    text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline)
      .flatMap { line in
        let rows = TextLayout.wrap(harmless(String(line)), width: width)
        return rows.isEmpty ? [""] : rows
      }
  }

  /// Replaces control characters (escape sequences) and characters that change the direction of text.
  package static func harmless(_ text: String) -> String {
    var result = ""
    for scalar in text.unicodeScalars {
      switch scalar.value {
      case 0x09: result.unicodeScalars.append(" ")
      case 0..<0x20, 0x7f..<0xa0, 0x2028...0x202e, 0x2066...0x2069:
        result.unicodeScalars.append("\u{fffd}")
      default: result.unicodeScalars.append(scalar)
      }
    }
    return result
  }
}
