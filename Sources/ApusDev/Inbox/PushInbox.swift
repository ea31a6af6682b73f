/// The newest captured pushes, up to a limit.
struct PushInbox: Sendable {
  private(set) var keep: Int
  private(set) var keepBytes: Int
  /// Elements from `head` on are kept, in the order of their numbers.
  private var pushes: [CapturedPush?] = []
  private var head = 0
  /// The number of `pushes[0]`.
  private var base: UInt64 = 1
  private(set) var bytes = 0
  /// Number of pushes since the start.
  private(set) var total: UInt64 = 0

  init(keep: Int, keepBytes: Int) {
    self.keep = keep
    self.keepBytes = keepBytes
  }

  var count: Int { pushes.count - head }
  var nextNumber: UInt64 { base + UInt64(pushes.count) }
  /// The number of the oldest kept push.
  var firstNumber: UInt64 { base + UInt64(head) }

  /// Appends a push, whose number must be `nextNumber`.
  ///
  /// - Returns: The pushes dropped to make room.
  mutating func append(_ push: CapturedPush) -> [CapturedPush] {
    precondition(push.number == nextNumber, "push numbers must be consecutive")
    pushes.append(push)
    total += 1
    bytes += push.cost
    var gone: [CapturedPush] = []
    while count > keep || (bytes > keepBytes && count > 1), let oldest = removeOldest() {
      gone.append(oldest)
    }
    return gone
  }

  private mutating func removeOldest() -> CapturedPush? {
    guard head < pushes.count, let oldest = pushes[head] else { return nil }
    pushes[head] = nil
    head += 1
    bytes -= oldest.cost
    if head > 1024, head * 2 > pushes.count {
      base += UInt64(head)
      pushes.removeFirst(head)
      head = 0
    }
    return oldest
  }

  mutating func clear() {
    base = nextNumber
    pushes = []
    head = 0
    bytes = 0
  }

  subscript(number: UInt64) -> CapturedPush? {
    guard number >= firstNumber, number < nextNumber else { return nil }
    return pushes[Int(number - base)]
  }

  /// Changes a kept push. Returns false if it is not kept.
  mutating func update(_ number: UInt64, _ body: (inout CapturedPush) -> Void) -> Bool {
    guard number >= firstNumber, number < nextNumber else { return false }
    let index = Int(number - base)
    guard var push = pushes[index] else { return false }
    // Removed temporarily, so that its arrays are changed in place.
    pushes[index] = nil
    bytes -= push.cost
    body(&push)
    bytes += push.cost
    pushes[index] = push
    return true
  }

  /// The pushes from `number` on, oldest first.
  func from(_ number: UInt64) -> some Sequence<CapturedPush> {
    pushes[min(pushes.count, max(head, Int(clamping: Int64(clamping: number) - Int64(base))))...]
      .lazy
      .compactMap { $0 }
  }

  /// The pushes, newest first; only those before `number` if given.
  func newestFirst(before number: UInt64? = nil) -> some Sequence<CapturedPush> {
    let end = number.map { Int(clamping: Int64(clamping: $0) - Int64(base)) } ?? pushes.count
    return pushes[head..<min(pushes.count, max(head, end))].reversed().lazy.compactMap { $0 }
  }
}
