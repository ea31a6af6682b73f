import ApusModel
import CEngineLog
import CRocksDB
import Glibc
import Synchronization

/// Receives the engine's own messages, which would otherwise go to a file beside the data. On a full disk an append to
/// that file fails, and the engine ends the process when it then closes the file.
@safe
final class EngineLog: Sendable {
  private let limiter = Mutex(LogLimiter(kinds: 1))
  private let onMessage: @Sendable (String) -> Void

  init(onMessage: @escaping @Sendable (String) -> Void) { self.onMessage = onMessage }

  /// Makes a database opened with `options` use this log until it is closed.
  func take(over options: OpaquePointer) {
    unsafe apus_engine_set_log(
      UnsafeMutableRawPointer(options),
      { context, text, length in
        guard let context = unsafe context, let text = unsafe text else { return }
        let log = unsafe Unmanaged<EngineLog>.fromOpaque(context).takeUnretainedValue()
        let bytes = unsafe UnsafeBufferPointer(start: text, count: length)
        log.receive(unsafe String(decoding: UnsafeRawBufferPointer(bytes), as: UTF8.self))
      },
      { context in
        guard let context = unsafe context else { return }
        unsafe Unmanaged<EngineLog>.fromOpaque(context).release()
      },
      Unmanaged.passRetained(self).toOpaque())
  }

  private func receive(_ text: String) {
    var now = timespec()
    unsafe clock_gettime(CLOCK_MONOTONIC, &now)
    let milliseconds = UInt64(now.tv_sec) * 1000 + UInt64(now.tv_nsec) / 1_000_000
    for line in lines(for: text, atMilliseconds: milliseconds) { onMessage(line) }
  }

  /// The lines to log for a message.
  func lines(for text: String, atMilliseconds now: UInt64) -> [String] {
    guard case .write(let suppressed) = limiter.withLock({ $0.admit(0, atMilliseconds: now) })
    else {
      return []
    }
    return suppressed > 0 ? ["\(suppressed) more messages were suppressed", text] : [text]
  }
}
