import ApusLoop

/// Progress of reading all device records after the start, before they are needed.
struct ReadAhead {
  var cursor: [UInt8] = []
  /// Whether to find out also which devices have nothing stored.
  var readsMailbox = true
  private let timer: LoopTimer

  /// A page takes at most a millisecond: a device that connects meanwhile may wait for one page at each of its steps.
  static let pageRows = 2048
  /// Stored notifications of a page's devices. If there are more, they are looked up when notifications arrive.
  static let pageNotifications = 1024
  private static let pauseMilliseconds: UInt64 = 1

  init(loop: EventLoop, _ next: @escaping () -> Void) {
    timer = LoopTimer(loop: loop, handler: next)
    timer.start(
      afterMilliseconds: Self.pauseMilliseconds, repeatMilliseconds: Self.pauseMilliseconds)
  }
}
