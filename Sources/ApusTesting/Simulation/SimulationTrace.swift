/// The events of a run: a hash over all events, which is equal for equal runs, and the last events as text.
package final class SimulationTrace {
  private struct Entry {
    var time: UInt64
    var event: StaticString
    var numbers: (Int, Int, Int)
    var text: String?
  }

  private let timeline: Timeline
  private let capacity: Int
  private var entries: [Entry] = []
  private var oldest = 0
  /// FNV-1a, one word at a time.
  package private(set) var hash: UInt64 = 0xcbf2_9ce4_8422_2325
  package private(set) var count: UInt64 = 0

  init(_ timeline: Timeline, capacity: Int) {
    self.timeline = timeline
    self.capacity = capacity
  }

  /// The destination of the service's log. Everything runs on one thread.
  final class LogSink: @unchecked Sendable {
    private unowned let trace: SimulationTrace

    init(_ trace: SimulationTrace) { self.trace = trace }

    func add(_ line: String) { trace("log:", text: line) }
  }

  private(set) lazy var log = LogSink(self)

  func callAsFunction(
    _ event: StaticString, _ first: Int = 0, _ second: Int = 0, _ third: Int = 0,
    text: String? = nil
  ) {
    count += 1
    mix(timeline.now)
    event.withUTF8Buffer { name in
      for index in name.indices { mix(UInt64(unsafe name[index])) }
    }
    mix(UInt64(bitPattern: Int64(first)))
    mix(UInt64(bitPattern: Int64(second)))
    mix(UInt64(bitPattern: Int64(third)))
    if let text { for byte in text.utf8 { mix(UInt64(byte)) } }
    guard capacity > 0 else { return }
    let entry = Entry(
      time: timeline.now, event: event, numbers: (first, second, third), text: text)
    if entries.count < capacity {
      entries.append(entry)
    } else {
      entries[oldest] = entry
      oldest = (oldest + 1) % capacity
    }
  }

  private func mix(_ word: UInt64) { hash = (hash ^ word) &* 0x0000_0100_0000_01b3 }

  /// The last events, oldest first: seconds, event, and what it concerns.
  package var lines: [String] {
    (entries[oldest...] + entries[..<oldest]).map { entry in
      let seconds = entry.time / Timeline.second
      let rest = String(entry.time % Timeline.second + Timeline.second).dropFirst()
      let numbers = [entry.numbers.0, entry.numbers.1, entry.numbers.2].map(String.init)
      return "\(seconds).\(rest) \(entry.event) \(numbers.joined(separator: " "))"
        + (entry.text.map { " " + $0 } ?? "")
    }
  }
}
