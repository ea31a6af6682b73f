import CEngineLog
import CRocksDB
import Glibc
import Synchronization

/// Takes the engine's own messages, which would otherwise go to a file beside the data. On a full disk an append to
/// that file fails, and the engine ends the process when it closes a file of which that is so.
@safe
final class EngineLog: Sendable {
  private struct State {
    var windowEndSeconds = 0
    var count = 0
    var suppressed = 0
  }

  private let state = Mutex(State())
  private let onMessage: @Sendable (String) -> Void

  /// Messages in one window that are passed on; the others are counted.
  private static let messagesPerWindow = 10
  private static let windowSeconds = 10

  init(onMessage: @escaping @Sendable (String) -> Void) { self.onMessage = onMessage }

  /// Has a database that is opened with `options` speak to this log until it is closed.
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
    for line in lines(for: text, nowSeconds: now.tv_sec) { onMessage(line) }
  }

  /// What is to be said now that a message came.
  func lines(for text: String, nowSeconds: Int) -> [String] {
    state.withLock { state in
      var lines: [String] = []
      if nowSeconds >= state.windowEndSeconds {
        if state.suppressed > 0 { lines.append("\(state.suppressed) more messages were left out") }
        state = State(windowEndSeconds: nowSeconds + Self.windowSeconds)
      }
      guard state.count < Self.messagesPerWindow else {
        state.suppressed += 1
        return lines
      }
      state.count += 1
      return lines + [text]
    }
  }
}
