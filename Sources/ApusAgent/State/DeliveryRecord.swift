/// How notifications ended, as lines of a file that only grows between two compactions.
///
/// | line | written |
/// | --- | --- |
/// | `start KEY SECONDS` | durably by the command's process, before it becomes the command |
/// | `again KEY` | the command could not start, or asked to be run again |
/// | `done KEY ACTION` | an action has ended for good |
/// | `end KEY SECONDS OUTCOME` | durably, before the notification is acknowledged |
///
/// A key is `ID/TOPIC`: providers choose the ids, so that those of two topics may be equal. Times are Unix seconds. A
/// half line at the end of the file, from a loss of power, is skipped. Bounded: the newest notifications replace the
/// oldest.
package struct DeliveryRecord: Sendable {
  package struct Entry: Sendable, Equatable {
    package var key: String
    package var seconds: Int64 = 0
    /// Whether the command started, and its end is not recorded.
    package var isStarted = false
    package var done: ActionSet = []
    /// How all of it ended; nil: not yet.
    package var outcome: String?

    package var id: Substring { key.prefix { $0 != "/" } }
    package var topic: Substring { key.drop { $0 != "/" }.dropFirst() }
  }

  package static func key(id: String, topic: String) -> String { "\(id)/\(topic)" }

  package let capacity: Int
  private var entries: [String: Entry] = [:]
  /// The keys by age, the oldest first.
  private var order: [String] = []
  /// Lines in the file since it was written anew.
  package private(set) var lineCount = 0

  package init(capacity: Int) { self.capacity = capacity }

  package subscript(key: String) -> Entry? { entries[key] }

  /// The newest first.
  package func newest(_ count: Int) -> [Entry] {
    order.suffix(count).reversed().compactMap { entries[$0] }
  }

  /// Whether the file has become so long that it should be written anew.
  package var wantsCompaction: Bool { lineCount > 4 * capacity + 64 }

  // MARK: Lines

  package static func start(_ key: String, seconds: Int64) -> String {
    "start \(key) \(seconds)\n"
  }

  package static func again(_ key: String) -> String { "again \(key)\n" }

  package static func done(_ key: String, _ action: ActionSet) -> String {
    "done \(key) \(action.rawValue)\n"
  }

  /// - Parameter outcome: Readable; line breaks become blanks.
  package static func end(_ key: String, seconds: Int64, outcome: String) -> String {
    let text = outcome.map { $0.isNewline ? " " : String($0) }.joined()
    return "end \(key) \(seconds) \(text)\n"
  }

  /// Takes a line, without its end. Others than those above change nothing.
  package mutating func apply(_ line: some StringProtocol) {
    lineCount += 1
    let words = line.split(separator: " ", maxSplits: 3)
    guard words.count >= 2, words[1].contains("/") else { return }
    let key = String(words[1])
    switch (words[0], words.count) {
    case ("start", 3):
      guard let seconds = Int64(words[2]) else { return }
      change(key) { ($0.isStarted, $0.seconds) = (true, seconds) }
    case ("again", 2): change(key) { $0.isStarted = false }
    case ("done", 3):
      guard let raw = UInt8(words[2]) else { return }
      let action = ActionSet(rawValue: raw)
      change(key) { entry in
        entry.done.formUnion(action)
        if action.contains(.run) { entry.isStarted = false }
      }
    case ("end", 4):
      guard let seconds = Int64(words[2]) else { return }
      change(key) { entry in
        (entry.isStarted, entry.seconds) = (false, seconds)
        entry.outcome = String(words[3])
      }
    default: return
    }
  }

  private mutating func change(_ key: String, _ body: (inout Entry) -> Void) {
    if entries[key] == nil {
      order.append(key)
      if order.count > capacity { entries[order.removeFirst()] = nil }
    }
    body(&entries[key, default: Entry(key: key)])
  }

  /// The lines that say the same, for a new file.
  package mutating func compacted() -> String {
    var lines: [String] = []
    for entry in order.compactMap({ entries[$0] }) {
      if !entry.done.isEmpty { lines.append(Self.done(entry.key, entry.done)) }
      if entry.isStarted {
        lines.append(Self.start(entry.key, seconds: entry.seconds))
      }
      if let outcome = entry.outcome {
        lines.append(Self.end(entry.key, seconds: entry.seconds, outcome: outcome))
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
