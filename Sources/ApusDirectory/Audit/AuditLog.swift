import ApusCore
package import ApusLog
import ApusLoop
import Glibc
import Synchronization

/// Records every change of trust, every refused peer, and every request rejected as unauthorized or for a known
/// device: who, what and when.
///
/// Each entry is one line of JSON, appended to a file that only its owner can read; lines are never changed. Commands
/// write to the same file as the service: each line is one `write` in append mode, so lines do not mix. Changes are
/// synced before the operation continues. Log rotation may move the file away at any time; the next line then starts a
/// new one.
///
/// Untrusted peers can cause refusals, so each class of them (event and reason) is limited to ``burst`` lines at once,
/// then one per ``intervalSeconds`` with the number of omitted lines. At 300 bytes a line, a class takes less than half
/// a megabyte a day, however many peers attack.
package final class AuditLog: Sendable {
  /// Lines of one class of refusals allowed at once.
  static let burst = 100
  /// Seconds until each further line of the class is allowed.
  static let intervalSeconds = 60

  private struct NoteClass: Hashable {
    var event: AuditEvent
    var reason: String
  }

  private struct Rate {
    var bucket = RateLimit.Bucket()
    var omitted = 0
  }

  private static let limit = RateLimit(capacity: burst, refill: 1, perSeconds: intervalSeconds)
  /// The maximum number of classes; further reasons of an event share one class. Only a safeguard: reasons come from
  /// closed lists.
  private static let largestClassCount = 256

  /// Nil: no lines are written.
  private let path: String?
  private let log: Log
  private let file = Mutex<OpenFile?>(nil)
  private let rates = Mutex<[NoteClass: Rate]>([:])

  /// - Parameters:
  ///   - path: The file; nil writes nothing, for simulations.
  ///   - log: Receives lines that cannot be written.
  package init(path: String?, log: Log = Log()) {
    self.path = path
    self.log = log
  }

  /// Records a change, synced. False if the line could not be written; then it goes to the log instead.
  ///
  /// - Parameters:
  ///   - actor: Who made the change: `uid 1000`, a device, an address.
  ///   - subject: What was changed.
  @discardableResult
  package func record(
    _ event: AuditEvent, actor: String, subject: String, _ fields: Log.Field...
  ) -> Bool {
    append(line(event, [.text("actor", actor), .text("subject", subject)] + fields), syncs: true)
  }

  /// Records what untrusted peers can cause, such as refusals, unless the class has reached its limit. Not synced,
  /// because it is called on the threads that serve.
  ///
  /// - Parameters:
  ///   - actor: The address of the peer.
  ///   - reason: The class, from a closed list; never text that the peer can choose.
  ///   - fields: Additional fields, evaluated only when the line is written.
  package func recordRefusal(
    _ event: AuditEvent, actor: @autoclosure () -> String, reason: String, nowMilliseconds: Int64,
    fields: () -> [Log.Field] = { [] }
  ) {
    guard let omitted = admit(event, reason, nowMilliseconds) else { return }
    var fields = [.text("actor", actor()), .text("reason", reason)] + fields()
    if omitted > 0 { fields.append(.number("omitted_before", omitted)) }
    append(line(event, fields), syncs: false)
  }

  /// How many lines of the class were omitted before this one; nil if this one is omitted too.
  private func admit(
    _ event: AuditEvent, _ reason: String, _ nowMilliseconds: Int64
  ) -> Int? {
    rates.withLock { rates in
      var key = NoteClass(event: event, reason: reason)
      if rates[key] == nil, rates.count >= Self.largestClassCount { key.reason = "" }
      var rate = rates[key] ?? Rate()
      defer { rates[key] = rate }
      guard Self.limit.take(from: &rate.bucket, atMilliseconds: nowMilliseconds) else {
        rate.omitted += 1
        return nil
      }
      defer { rate.omitted = 0 }
      return rate.omitted
    }
  }

  // MARK: The file

  private func line(_ event: AuditEvent, _ fields: [Log.Field]) -> String {
    "{\"time\":\"\(Log.timestamp(EventLoop.wallClockMilliseconds()))\""
      + ",\"event\":\"\(event.rawValue)\"\(Log.jsonMembers(fields))}\n"
  }

  /// Keeps the file open, and reopens it if `path` is another file now, because it was moved or deleted. That check
  /// takes one system call per line, a third of what opening and closing the file each time would cost.
  @discardableResult
  private func append(_ line: String, syncs: Bool) -> Bool {
    guard let path else { return true }
    do {
      try file.withLock { file in
        if file?.isStill(at: path) != true { file = try OpenFile(appendingTo: path) }
        try file?.append(line, syncs: syncs)
      }
      return true
    } catch {
      log.limited(.error, .auditNotWritten, atMilliseconds: EventLoop.monotonicMilliseconds()) {
        [.text("reason", "\(error)"), .text("line", line)]
      }
      return false
    }
  }
}
