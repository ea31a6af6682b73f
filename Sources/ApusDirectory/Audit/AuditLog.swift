import ApusCore
package import ApusLog
import ApusLoop
import Glibc
import Synchronization

/// Every change of trust, and everybody who was turned away: who, what, and when.
///
/// One line of JSON each, appended to one file that only its owner can read; nothing in it is ever changed. Commands
/// write to the same file as the service: a line is one `write` to a file that is open for appending, so lines do not
/// mix. Changes are synced before their cause goes on. An operator's log rotation may move the file away at any time;
/// the next line begins a new one.
///
/// Refusals are what strangers can bring about, so each class of them (an event and its reason) has ``burst`` lines at
/// once and then one in ``intervalSeconds``, which says how many were left out: at 300 bytes a line a class takes less
/// than half a megabyte a day, however many attack.
package final class AuditLog: Sendable {
  /// Lines of one class of refusals that may come at once.
  static let burst = 100
  /// Seconds to each further line of the class.
  static let intervalSeconds = 60

  private struct NoteClass: Hashable {
    var event: AuditEvent
    var reason: String
  }

  private struct Restraint {
    var bucket = RateLimit.Bucket()
    var omitted = 0
  }

  private static let limit = RateLimit(capacity: burst, refill: 1, perSeconds: intervalSeconds)
  /// Reasons come from closed lists; should one ever not, they share a class beyond this many.
  private static let largestClassCount = 256

  /// Nil: nothing is kept.
  private let path: String?
  private let log: Log
  private let file = Mutex<OpenFile?>(nil)
  private let restraints = Mutex<[NoteClass: Restraint]>([:])

  /// - Parameters:
  ///   - path: The file; nil keeps nothing, for simulations.
  ///   - log: Is told when a line cannot be written, and gets the line.
  package init(path: String?, log: Log = Log()) {
    self.path = path
    self.log = log
  }

  /// Writes down a change, synced. False when it could not be written; the log has the line then.
  ///
  /// - Parameters:
  ///   - actor: Who did it: `uid 1000`, a device, an address.
  ///   - subject: What it was done to.
  @discardableResult
  package func record(
    _ event: AuditEvent, actor: String, subject: String, _ fields: Log.Field...
  ) -> Bool {
    append(line(event, [.text("actor", actor), .text("subject", subject)] + fields), syncs: true)
  }

  /// Writes down what strangers can bring about, such as being turned away, unless that class has had its lines. Not
  /// synced: it is called on the threads that serve.
  ///
  /// - Parameters:
  ///   - actor: The address that it came from.
  ///   - reason: The class: one of a closed list, and nothing that the refused one can choose.
  ///   - fields: What else to say; asked for only when the line is written.
  package func note(
    _ event: AuditEvent, actor: @autoclosure () -> String, reason: String, nowMilliseconds: Int64,
    fields: () -> [Log.Field] = { [] }
  ) {
    guard let omitted = admit(event, reason, nowMilliseconds) else { return }
    var fields = [.text("actor", actor()), .text("reason", reason)] + fields()
    if omitted > 0 { fields.append(.number("omitted_before", omitted)) }
    append(line(event, fields), syncs: false)
  }

  /// How many lines of the class were left out before this one; nil when it is left out too.
  private func admit(
    _ event: AuditEvent, _ reason: String, _ nowMilliseconds: Int64
  ) -> Int? {
    restraints.withLock { restraints in
      var key = NoteClass(event: event, reason: reason)
      if restraints[key] == nil, restraints.count >= Self.largestClassCount { key.reason = "" }
      var restraint = restraints[key] ?? Restraint()
      defer { restraints[key] = restraint }
      guard Self.limit.take(from: &restraint.bucket, atMilliseconds: nowMilliseconds) else {
        restraint.omitted += 1
        return nil
      }
      defer { restraint.omitted = 0 }
      return restraint.omitted
    }
  }

  // MARK: The file

  private func line(_ event: AuditEvent, _ fields: [Log.Field]) -> String {
    "{\"time\":\"\(Log.timestamp(EventLoop.wallClockMilliseconds()))\""
      + ",\"event\":\"\(event.rawValue)\"\(Log.jsonMembers(fields))}\n"
  }

  /// The file stays open, and is opened anew where `path` leads to another one: it was moved away, or is gone. That is
  /// one look for each line, where opening, and closing behind it, were three times as much for those that serve.
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
