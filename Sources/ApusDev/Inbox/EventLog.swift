/// An event of the development service.
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

/// The latest events with their numbers, so that readers can continue after a reconnect.
struct EventLog: Sendable {
  private var events: [DevEvent] = []
  private var head = 0
  /// The number of `events[0]`. Each run begins with a number far from those of the previous run.
  private var base: UInt64
  private let capacity: Int

  init(first: UInt64, capacity: Int = 20_000) {
    base = first
    self.capacity = capacity
  }

  /// The number of the next event.
  var next: UInt64 { base + UInt64(events.count) }
  /// The number of the oldest kept event.
  var first: UInt64 { base + UInt64(head) }

  mutating func append(_ event: DevEvent) {
    events.append(event)
    if events.count - head > capacity { head += 1 }
    guard head > capacity else { return }
    base += UInt64(head)
    events.removeFirst(head)
    head = 0
  }

  /// The events from `number` on; nil if some were dropped, or if the number belongs to another run.
  func from(_ number: UInt64) -> ArraySlice<DevEvent>? {
    guard number >= first, number <= next else { return nil }
    return events[Int(number - base)...]
  }
}
