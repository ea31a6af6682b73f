import CUV
import Glibc

/// Calls back on a loop when the process gets a signal, in place of the signal's default effect. Confined.
///
/// Like a `LoopTimer`: once it is released or closed, it no longer watches and the default effect returns.
@safe
package final class SignalWatcher {
  package let loop: EventLoop
  private let cell: UnsafeMutablePointer<SignalCell>

  /// - Parameter signal: For example `SIGTERM`. SIGKILL and SIGSTOP cannot be watched.
  package init(loop: EventLoop, signal: Int32, handler: @escaping () -> Void) throws(SocketError) {
    loop.preconditionConfined()
    self.loop = loop
    unsafe cell = .allocate(capacity: 1)
    unsafe cell.initialize(to: SignalCell(uv: uv_signal_t(), handler: nil))
    guard loop.takesHandles else {
      unsafe Handles.markUnborn(Handles.base(cell))
      throw .loopStopped
    }
    let watcher = unsafe UnsafeMutableRawPointer(cell).assumingMemoryBound(to: uv_signal_t.self)
    let initCode = unsafe uv_signal_init(loop.uv, watcher)
    guard initCode == 0 else {
      unsafe Handles.markUnborn(Handles.base(cell))
      throw .system(.watchSignal, code: -initCode, nil)
    }
    unsafe cell.pointee.handler = handler
    let code = unsafe uv_signal_start(watcher, signalArrives, signal)
    guard code == 0 else { throw .system(.watchSignal, code: -code, nil) }
  }

  deinit { unsafe loop.retire(Handles.base(cell)) }

  /// Stops watching and releases the handler. Repeating it has no effect.
  package func close() {
    loop.preconditionConfined()
    unsafe Handles.close(Handles.base(cell))
  }
}

/// See `Handles`. The C struct comes first.
@unsafe struct SignalCell {
  var uv: uv_signal_t
  var handler: (() -> Void)?
}

private func signalArrives(_ watcher: UnsafeMutablePointer<uv_signal_t>?, _ signal: Int32) {
  guard let watcher = unsafe watcher else { return }
  let cell = unsafe UnsafeMutableRawPointer(watcher).assumingMemoryBound(to: SignalCell.self)
  let handler = unsafe cell.pointee.handler
  handler?()
}

extension SignalWatcher {
  /// Unblocks all signals that the parent process had blocked.
  ///
  /// The blocked set is inherited: a program started from a thread pool might not be stopped by SIGTERM. Call it first
  /// of all, before other threads exist.
  package static func unblockAll() {
    var all = sigset_t()
    unsafe sigfillset(&all)
    unsafe sigprocmask(SIG_UNBLOCK, &all, nil)
  }
}
