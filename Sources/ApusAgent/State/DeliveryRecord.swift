/// How notifications ended, as lines of a file that only grows between two compactions.
///
/// | line | written |
/// | --- | --- |
/// | `start ID SECONDS TOPIC` | durably by the command's process, before it becomes the command |
/// | `again ID` | the command could not start, or asked to be run again |
/// | `done ID ACTION` | an action has ended for good |
/// | `end ID SECONDS TOPIC OUTCOME` | durably, before the notification is acknowledged |
///
/// Times are Unix seconds. A half line at the end of the file, from a loss of power, is skipped. Bounded: the newest
/// notifications replace the oldest.
package struct DeliveryRecord: Sendable {
  package struct Entry: Sendable, Equatable {
    package var id: String
    package var topic = ""
    package var seconds: Int64 = 0
    /// Whether the command started, and its end is not recorded.
    package var isStarted = false
    package var done: ActionSet = []
    /// How all of it ended; nil: not yet.
    package var outcome: String?
  }

  package let capacity: Int
  private var entries: [String: Entry] = [:]
  /// The ids by age, the oldest first.
  private var order: [String] = []
  /// Lines in the file since it was written anew.
  package private(set) var lineCount = 0

  package init(capacity: Int) { self.capacity = capacity }

  package subscript(id: String) -> Entry? { entries[id] }

  /// The newest first.
  package func newest(_ count: Int) -> [Entry] {
    order.suffix(count).reversed().compactMap { entries[$0] }
  }

  /// Whether the file has become so long that it should be written anew.
  package var wantsCompaction: Bool { lineCount > 4 * capacity + 64 }

  // MARK: Lines

  package static func start(_ id: String, _ topic: String, seconds: Int64) -> String {
    "start \(id) \(seconds) \(topic)\n"
  }

  package static func again(_ id: String) -> String { "again \(id)\n" }

  package static func done(_ id: String, _ action: ActionSet) -> String {
    "done \(id) \(action.rawValue)\n"
  }

  /// - Parameter outcome: Readable; line breaks become blanks.
  package static func end(
    _ id: String, _ topic: String, seconds: Int64, outcome: String
  ) -> String {
    let text = outcome.map { $0.isNewline ? " " : String($0) }.joined()
    return "end \(id) \(seconds) \(topic) \(text)\n"
  }

  /// Takes a line, without its end. Others than those above change nothing.
  package mutating func apply(_ line: some StringProtocol) {
    lineCount += 1
    let words = line.split(separator: " ", maxSplits: 4)
    guard words.count >= 2 else { return }
    let id = String(words[1])
    switch (words[0], words.count) {
    case ("start", 4):
      guard let seconds = Int64(words[2]) else { return }
      change(id) { entry in
        (entry.isStarted, entry.seconds, entry.topic) = (true, seconds, String(words[3]))
      }
    case ("again", 2): change(id) { $0.isStarted = false }
    case ("done", 3):
      guard let raw = UInt8(words[2]) else { return }
      let action = ActionSet(rawValue: raw)
      change(id) { entry in
        entry.done.formUnion(action)
        if action.contains(.run) { entry.isStarted = false }
      }
    case ("end", 5):
      guard let seconds = Int64(words[2]) else { return }
      change(id) { entry in
        (entry.isStarted, entry.seconds, entry.topic) = (false, seconds, String(words[3]))
        entry.outcome = String(words[4])
      }
    default: return
    }
  }

  private mutating func change(_ id: String, _ body: (inout Entry) -> Void) {
    if entries[id] == nil {
      order.append(id)
      if order.count > capacity { entries[order.removeFirst()] = nil }
    }
    body(&entries[id, default: Entry(id: id)])
  }

  /// The lines that say the same, for a new file.
  package mutating func compacted() -> String {
    var lines: [String] = []
    for entry in order.compactMap({ entries[$0] }) {
      if !entry.done.isEmpty { lines.append(Self.done(entry.id, entry.done)) }
      if entry.isStarted {
        lines.append(Self.start(entry.id, entry.topic, seconds: entry.seconds))
      }
      if let outcome = entry.outcome {
        lines.append(
          Self.end(entry.id, entry.topic, seconds: entry.seconds, outcome: outcome))
      }
    }
    lineCount = lines.count
    return lines.joined()
  }
}

/// Some of the things that happen with a notification.
package struct ActionSet: OptionSet, Sendable, Hashable {
  package let rawValue: UInt8
  package init(rawValue: UInt8) { self.rawValue = rawValue }

  // The raw values are on disk.
  package static let run = ActionSet(rawValue: 1)
  package static let show = ActionSet(rawValue: 2)
  package static let write = ActionSet(rawValue: 4)
  package static let forward = ActionSet(rawValue: 8)

  package static let named: [(ActionSet, String)] = [
    (.run, "run"), (.show, "show"), (.write, "write"), (.forward, "forward"),
  ]

  /// The name of one action.
  package var name: String { Self.named.first { contains($0.0) }?.1 ?? "nothing" }
}
