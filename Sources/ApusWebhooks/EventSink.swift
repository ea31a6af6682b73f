package import ApusLog
import Synchronization

/// Where the threads of a service report events. An event that no webhook wants costs one relaxed load.
package final class EventSink: Sendable {
  private struct Buffer {
    var events: [String] = []
    var bytes = 0
    var dropped: UInt64 = 0
  }

  private let kinds = Atomic<UInt32>(0)
  private let buffer = Mutex(Buffer())

  /// The most that waits to be written while the disk is slow. Further events are counted as a gap.
  static let limitBytes = 8 << 20

  package init() {}

  @inline(__always)
  package func wants(_ kind: EventKind) -> Bool {
    let wanted = kinds.load(ordering: .relaxed)
    return wanted != 0 && EventKinds(rawValue: wanted).contains(kind)
  }

  func setKinds(_ wanted: EventKinds) { kinds.store(wanted.rawValue, ordering: .relaxed) }

  /// - Parameter milliseconds: Unix milliseconds of the event.
  package func report(_ kind: EventKind, milliseconds: Int64, _ fields: [Log.Field]) {
    guard wants(kind) else { return }
    let event = Self.text(kind.rawValue, milliseconds: milliseconds, fields)
    buffer.withLock { buffer in
      guard buffer.bytes + event.utf8.count <= Self.limitBytes else {
        buffer.dropped += 1
        return
      }
      buffer.bytes += event.utf8.count
      buffer.events.append(event)
    }
  }

  /// The members of an event's JSON object, except its number.
  static func text(_ name: String, milliseconds: Int64, _ fields: [Log.Field]) -> String {
    "\"event\":\"\(name)\",\"time\":\"\(Log.timestamp(milliseconds))\"\(Log.jsonMembers(fields))"
  }

  /// What was reported since the last call, in order, and how many events there was no room for after it.
  func take() -> (events: [String], dropped: UInt64) {
    buffer.withLock { buffer in
      defer { buffer = Buffer() }
      return (buffer.events, buffer.dropped)
    }
  }
}
