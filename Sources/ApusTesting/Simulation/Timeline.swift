/// The planned events of a simulation with their times, in microseconds since its start. Events with the same time
/// happen in the order of planning.
final class Timeline {
  private struct Event {
    var time: UInt64
    var number: UInt64
    var action: () -> Void

    func comesBefore(_ other: Event) -> Bool {
      time != other.time ? time < other.time : number < other.number
    }
  }

  private(set) var now: UInt64 = 0
  private(set) var eventCount: UInt64 = 0
  private var heap: [Event] = []
  private var planned: UInt64 = 0

  static let second: UInt64 = 1_000_000

  func at(_ time: UInt64, _ action: @escaping () -> Void) {
    planned += 1
    heap.append(Event(time: max(time, now), number: planned, action: action))
    var index = heap.count - 1
    while index > 0 {
      let parent = (index - 1) / 2
      guard heap[index].comesBefore(heap[parent]) else { break }
      heap.swapAt(index, parent)
      index = parent
    }
  }

  func after(_ microseconds: UInt64, _ action: @escaping () -> Void) {
    at(now + microseconds, action)
  }

  func after(seconds: Double, _ action: @escaping () -> Void) {
    after(UInt64(seconds * Double(Self.second)), action)
  }

  /// Runs events until `time`, or until `stop` is true.
  func run(until time: UInt64, stop: () -> Bool) {
    while let first = heap.first, first.time <= time, !stop() {
      removeFirst()
      now = first.time
      eventCount += 1
      first.action()
    }
    if !stop() { now = max(now, time) }
  }

  /// Removes all planned events, and what they reference.
  func clear() { heap = [] }

  private func removeFirst() {
    let last = heap.removeLast()
    guard !heap.isEmpty else { return }
    heap[0] = last
    var index = 0
    while true {
      var least = index
      for child in [2 * index + 1, 2 * index + 2] where child < heap.count {
        if heap[child].comesBefore(heap[least]) { least = child }
      }
      guard least != index else { return }
      heap.swapAt(index, least)
      index = least
    }
  }
}
