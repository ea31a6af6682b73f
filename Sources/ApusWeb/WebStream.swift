import ApusThread
import CMicroHTTPD
import Glibc

/// The body of a response that is written over time, such as server-sent events.
///
/// Unread bytes are buffered up to `capacity`; beyond it, writes fail with `full`, so that a slow client uses bounded
/// memory. Any thread may write.
package final class WebStream: Sendable {
  package enum Outcome: Sendable, Hashable {
    case taken
    /// Nothing was written, because the client has not read the earlier bytes.
    case full
    /// The client has disconnected.
    case closed
  }

  private struct State {
    var waiting: [UInt8] = []
    /// Number of sent bytes at the front of `waiting`.
    var sent = 0
    var hasEnded = false
    var isClosed = false
    /// The connection, if it is suspended until more is written.
    var sleeper: Connection?

    var count: Int { waiting.count - sent }
  }

  private let state: Monitor<State>
  private let capacity: Int
  private let onRoom: (@Sendable () -> Void)?

  /// - Parameters:
  ///   - capacity: Maximum number of buffered bytes.
  ///   - onRoom: Called on the server's thread when the buffer is empty again. It must not block.
  package init(capacity: Int = 65_536, onRoom: (@Sendable () -> Void)? = nil) {
    self.capacity = capacity
    self.onRoom = onRoom
    state = Monitor(State())
  }

  package func write(_ bytes: [UInt8]) -> Outcome {
    state.notify { state in
      guard !state.isClosed, !state.hasEnded else { return .closed }
      guard state.count + bytes.count <= capacity else { return .full }
      state.waiting.append(contentsOf: bytes)
      Self.wake(&state)
      return .taken
    }
  }

  /// Blocks until the client has read everything, or has disconnected.
  package func drain() -> Outcome {
    state.wait { state in
      if state.isClosed { return .found(.closed) }
      return state.count == 0 ? .found(.taken) : .wait(untilMilliseconds: nil)
    }
  }

  /// Ends the stream.
  package func end() {
    state.notify { state in
      state.hasEnded = true
      Self.wake(&state)
    }
  }

  package var isClosed: Bool { state.withLock { $0.isClosed } }

  // MARK: The server's side

  private static func wake(_ state: inout State) {
    guard let connection = state.sleeper else { return }
    state.sleeper = nil
    connection.resume()
  }

  /// Copies buffered bytes; if there are none, suspends the connection until there are. Returns the value for
  /// libmicrohttpd's content reader.
  func read(into buffer: UnsafeMutableRawBufferPointer, for connection: Connection) -> Int {
    let (count, isDrained) = state.notify { state -> (Int, Bool) in
      if state.count == 0 {
        if state.hasEnded || state.isClosed { return (-1, false) }
        guard connection.suspend() else { return (-1, false) }
        state.sleeper = connection
        return (0, false)
      }
      let count = min(buffer.count, state.count)
      unsafe state.waiting.withUnsafeBytes { bytes in
        unsafe buffer.copyMemory(from: .init(rebasing: bytes[state.sent..<state.sent + count]))
      }
      state.sent += count
      if state.count == 0 {
        state.waiting.removeAll(keepingCapacity: true)
        state.sent = 0
      }
      return (count, state.count == 0)
    }
    if isDrained { onRoom?() }
    return count
  }

  /// Marks the client as disconnected.
  func close() {
    state.notify { state in
      state.isClosed = true
      Self.wake(&state)
    }
  }
}
