import CUV

/// A timer on a loop, in milliseconds. Confined.
///
/// The loop does not keep a timer alive: releasing it stops it. The handler is kept until `close()` or the release, so
/// a handler that references the timer's owner needs `close()` to be released.
@safe
package final class LoopTimer {
  package let loop: EventLoop
  private let cell: UnsafeMutablePointer<TimerCell>

  package init(loop: EventLoop, handler: @escaping () -> Void) {
    loop.preconditionConfined()
    self.loop = loop
    unsafe cell = .allocate(capacity: 1)
    unsafe cell.initialize(to: TimerCell(uv: uv_timer_t(), handler: nil))
    if loop.simulation != nil {
      unsafe Handles.markUnborn(Handles.base(cell))
      unsafe cell.pointee.handler = handler
      return
    }
    guard loop.takesHandles else {
      unsafe Handles.markUnborn(Handles.base(cell))
      return
    }
    unsafe uv_timer_init(loop.uv, timer)
    unsafe cell.pointee.handler = handler
  }

  deinit {
    if let simulation = loop.simulation { unsafe simulation.close(cell) }
    unsafe loop.retire(Handles.base(cell))
  }

  /// Fires once after a time, then with each period if `repeatMilliseconds` is not 0. Restarts a running timer.
  ///
  /// The time counts from `loop.nowMilliseconds`, the start of the turn.
  package func start(afterMilliseconds: UInt64, repeatMilliseconds: UInt64 = 0) {
    guard isOpen else { return }
    if let simulation = loop.simulation {
      return unsafe simulation.start(
        cell, afterMilliseconds: afterMilliseconds, repeatMilliseconds: repeatMilliseconds)
    }
    check(
      unsafe uv_timer_start(timer, timerFires, afterMilliseconds, repeatMilliseconds),
      "uv_timer_start")
  }

  package func stop() {
    guard isOpen else { return }
    if let simulation = loop.simulation { return unsafe simulation.stop(cell) }
    unsafe uv_timer_stop(timer)
  }

  /// Whether the timer will fire.
  package var isActive: Bool {
    if let simulation = loop.simulation { return unsafe simulation.isActive(cell) }
    return unsafe isOpen && uv_is_active(Handles.base(cell)) != 0
  }

  /// Stops for good and releases the handler. Repeating it has no effect.
  package func close() {
    loop.preconditionConfined()
    if let simulation = loop.simulation { return unsafe simulation.close(cell) }
    unsafe Handles.close(Handles.base(cell))
  }

  /// Only a closed timer has no handler.
  private var isOpen: Bool {
    loop.preconditionConfined()
    return unsafe cell.pointee.handler != nil
  }

  private var timer: UnsafeMutablePointer<uv_timer_t> {
    unsafe UnsafeMutableRawPointer(cell).assumingMemoryBound(to: uv_timer_t.self)
  }
}

/// See `Handles`. The C struct comes first.
@unsafe struct TimerCell {
  var uv: uv_timer_t
  var handler: (() -> Void)?
}

private func timerFires(_ timer: UnsafeMutablePointer<uv_timer_t>?) {
  guard let timer = unsafe timer else { return }
  let cell = unsafe UnsafeMutableRawPointer(timer).assumingMemoryBound(to: TimerCell.self)
  // A copy: the handler may close the timer, which releases it.
  let handler = unsafe cell.pointee.handler
  handler?()
}
