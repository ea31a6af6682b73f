import ApusLog
package import ApusModel
package import ApusWire

/// Notifications that were rejected as unauthorized, or for a known device, from the audit log. The ledger does not
/// have them, because they were never accepted. Each line has the cause in words.
package struct RefusalLog {
  /// Selects lines; nil matches all.
  package struct Query {
    /// The `apns-id` that the provider received.
    package var id: NotificationID?
    /// The topic as the provider spelled it.
    package var topic: String?
    /// The device that the request was for.
    package var device: DeviceID?
    /// The first digits of its device token, as ``DeviceToken/redacted``.
    package var token: String?
    /// Start time, inclusive, Unix milliseconds.
    package var sinceMilliseconds: Int64?
    /// End time, exclusive, Unix milliseconds.
    package var untilMilliseconds: Int64?

    package init() {}
  }

  private let reader: AuditReader

  package init(_ directory: DataDirectory) { reader = AuditReader(path: directory.auditFile) }

  /// The newest `limit` matching lines, oldest first. Each has `time`, `reason`, `explanation`, `actor`, `listener`,
  /// and, if the request had them, `id`, `topic`, the first digits of `token`, and `device` with its `device_name` if
  /// the service issued the token.
  package func newest(_ query: Query, limit: Int) throws(FileError) -> [JSONValue] {
    var found: [JSONValue] = []
    var before: Int64?
    let since = query.sinceMilliseconds.map(Log.timestamp)
    repeat {
      var isBehind = false
      let page = try reader.page(before: before, limit: limit - found.count) { line in
        // All further lines are older.
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
    // RFC 3339 times in the same format compare correctly as text.
    let time = line["time"]?.string ?? ""
    return (id.map { line["id"]?.string == $0.text } ?? true)
      && (topic.map { line["topic"]?.string == $0 } ?? true)
      && (device.map { line["device"]?.string == $0.text } ?? true)
      && (token.map { line["token"]?.string == $0 } ?? true)
      && (sinceMilliseconds.map { time >= Log.timestamp($0) } ?? true)
      && (untilMilliseconds.map { time < Log.timestamp($0) } ?? true)
  }
}
