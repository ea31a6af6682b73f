import ApusLog
package import ApusModel
package import ApusWire

/// Notifications that were rejected as unauthorized, from the audit log: what the ledger cannot know of, because
/// they were never accepted. Whoever asks what became of a notification finds here which key, team, topic or
/// environment was in the way.
package struct RefusalLog {
  /// Which of them; what is nil does not matter.
  package struct Query {
    /// The `apns-id` that the provider was told.
    package var id: NotificationID?
    /// The topic as the provider spelled it.
    package var topic: String?
    /// Unix milliseconds, from that time on.
    package var sinceMilliseconds: Int64?
    /// Unix milliseconds, before that time.
    package var untilMilliseconds: Int64?

    package init() {}
  }

  private let reader: AuditReader

  package init(_ directory: DataDirectory) { reader = AuditReader(path: directory.auditFile) }

  /// The newest `limit` lines that match, oldest first. Each has `time`, `reason`, `explanation`, `actor`, `door` and,
  /// where the request had them, `id`, `topic` and the beginning of its `token`.
  package func newest(_ query: Query, limit: Int) throws(FileError) -> [JSONValue] {
    var found: [JSONValue] = []
    var before: Int64?
    let since = query.sinceMilliseconds.map(Log.timestamp)
    repeat {
      var isBehind = false
      let page = try reader.page(before: before, limit: limit - found.count) { line in
        // What follows is older still.
        if let since, line["time"]?.string ?? "" < since { isBehind = true }
        return line["event"]?.string == AuditEvent.requestRefused.rawValue && query.matches(line)
      }
      found += page.lines.map(\.json)
      before = isBehind ? nil : page.next
    } while found.count < limit && before != nil
    return found.reversed()
  }
}

extension RefusalLog.Query {
  package func matches(_ line: JSONValue) -> Bool {
    // Times of one form compare as texts.
    let time = line["time"]?.string ?? ""
    return (id.map { line["id"]?.string == $0.text } ?? true)
      && (topic.map { line["topic"]?.string == $0 } ?? true)
      && (sinceMilliseconds.map { time >= Log.timestamp($0) } ?? true)
      && (untilMilliseconds.map { time < Log.timestamp($0) } ?? true)
  }
}
