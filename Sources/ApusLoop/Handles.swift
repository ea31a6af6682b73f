import CUV
import Glibc

/// Owning libuv handles from Swift.
///
/// libuv closes a handle asynchronously, and a Swift object may be released at any time and on any thread. So a handle
/// is in a cell of its own (the C struct first, then the Swift state), which is freed once libuv has called back and
/// the owner was released. Callbacks use only the cell, never the owner; the owner's pointer is valid while the owner
/// lives. `uv_handle_t.data` records which of the two has happened.
enum Handles {
  /// libuv has released the handle; its owner still exists.
  private static var closedMark: UnsafeMutableRawPointer? { unsafe .init(bitPattern: 1) }
  /// The owner was released; libuv has not released the handle yet.
  private static var orphanedMark: UnsafeMutableRawPointer? { unsafe .init(bitPattern: 2) }

  static func base<Cell>(_ cell: UnsafeMutablePointer<Cell>) -> UnsafeMutablePointer<uv_handle_t> {
    unsafe UnsafeMutableRawPointer(cell).assumingMemoryBound(to: uv_handle_t.self)
  }

  /// Marks a cell whose handle was never initialised, so that `retire` frees it.
  static func markUnborn(_ handle: UnsafeMutablePointer<uv_handle_t>) {
    unsafe handle.pointee.data = closedMark
  }

  /// Closes a handle and releases the content of its cell; repeating it has no effect. Confined.
  static func close(_ handle: UnsafeMutablePointer<uv_handle_t>) {
    guard unsafe handle.pointee.data != closedMark, unsafe uv_is_closing(handle) == 0 else {
      return
    }
    unsafe uv_close(handle, handleDidClose)
    let cell = UnsafeMutableRawPointer(handle)
    switch unsafe handle.pointee.type {
    case UV_TIMER: unsafe take(&cell.assumingMemoryBound(to: TimerCell.self).pointee.handler)
    case UV_SIGNAL: unsafe take(&cell.assumingMemoryBound(to: SignalCell.self).pointee.handler)
    default: preconditionFailure("a handle of unknown type")
    }
  }

  /// Empties a cell's handler. The result is released after the access ends, because its release may access the cell
  /// again.
  @discardableResult
  static func take<Handler>(_ handler: inout Handler?) -> Handler? {
    handler.take()
  }

  /// The owner is released: closes the handle, and frees the cell now or once libuv has released the handle. Confined.
  static func retire(_ handle: UnsafeMutablePointer<uv_handle_t>) {
    unsafe close(handle)
    if unsafe handle.pointee.data == closedMark {
      unsafe UnsafeMutableRawPointer(handle).deallocate()
    } else {
      unsafe handle.pointee.data = orphanedMark
    }
  }

  /// Closes what owners left open on an ending loop.
  static func closeAll(of loop: UnsafeMutablePointer<uv_loop_t>) {
    unsafe uv_walk(
      loop,
      { handle, _ in
        guard let handle = unsafe handle else { return }
        switch unsafe handle.pointee.type {
        case UV_TIMER, UV_SIGNAL: unsafe Handles.close(handle)
        default: break  // The loop's own, which it closes last.
        }
      }, nil)
  }

  fileprivate static func didClose(_ handle: UnsafeMutablePointer<uv_handle_t>) {
    if unsafe handle.pointee.data == orphanedMark {
      unsafe UnsafeMutableRawPointer(handle).deallocate()
    } else {
      unsafe handle.pointee.data = closedMark
    }
  }
}

private func handleDidClose(_ handle: UnsafeMutablePointer<uv_handle_t>?) {
  if let handle = unsafe handle { unsafe Handles.didClose(handle) }
}

extension EventLoop {
  /// For an owner's `deinit`, on any thread.
  func retire(_ handle: UnsafeMutablePointer<uv_handle_t>) {
    if isConfined || isClosed {
      unsafe Handles.retire(handle)
    } else {
      nonisolated(unsafe) let handle = unsafe handle
      perform { unsafe Handles.retire(handle) }
    }
  }
}
