/// Something that whoever watches the stand-in is told.
enum DevEvent: Sendable, Hashable {
  case push(UInt64)
  case update(UInt64)
  case device(String)
  case fault
  case clock
  case cleared

  var name: String {
    switch self {
    case .push: "push"
    case .update: "update"
    case .device: "device"
    case .fault: "fault"
    case .clock: "clock"
    case .cleared: "cleared"
    }
  }
}

/// The latest events, each with its number, for those who come back and want to go on. A value.
struct EventLog: Sendable {
  private var events: [DevEvent] = []
  private var head = 0
  /// The number of `events[0]`. Numbers begin anew with each run, far from those of the run before.
  private var base: UInt64
  private let capacity: Int

  init(first: UInt64, capacity: Int = 20_000) {
    base = first
    self.capacity = capacity
  }

  /// What the next event will have.
  var next: UInt64 { base + UInt64(events.count) }
  /// Of the oldest that is there.
  var first: UInt64 { base + UInt64(head) }

  mutating func append(_ event: DevEvent) {
    events.append(event)
    if events.count - head > capacity { head += 1 }
    guard head > capacity else { return }
    base += UInt64(head)
    events.removeFirst(head)
    head = 0
  }

  /// From that number on; nil where some of them are gone, or it is of another run.
  func from(_ number: UInt64) -> ArraySlice<DevEvent>? {
    guard number >= first, number <= next else { return nil }
    return events[Int(number - base)...]
  }
}
