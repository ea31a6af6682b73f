import CMicroHTTPD
import Glibc

/// The body of an answer that is written over time, such as server-sent events.
///
/// What the client has not taken is kept up to `capacity`; beyond it nothing is taken and the writer is told, so that a
/// client that reads slowly costs so much and no more. Any thread may write.
package final class WebStream: Sendable {
  package enum Outcome: Sendable, Hashable {
    case taken
    /// Nothing of it was taken: the client has not read what came before.
    case full
    /// Nobody reads any more.
    case closed
  }

  private struct State {
    var waiting: [UInt8] = []
    /// Bytes at the front of `waiting` that were sent.
    var sent = 0
    var hasEnded = false
    var isClosed = false
    /// The connection, where it waits for more to be written.
    var sleeper: Connection?

    var count: Int { waiting.count - sent }
  }

  private let state: Monitor<State>
  private let capacity: Int
  private let onRoom: (@Sendable () -> Void)?

  /// - Parameters:
  ///   - capacity: Bytes that are kept for the client.
  ///   - onRoom: Called on the server's thread when everything was taken and more is welcome. It must not wait.
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

  /// Waits until the client has taken all that was written, or is gone: for writers with a thread of their own.
  package func drain() -> Outcome {
    state.wait { state in
      if state.isClosed { return .found(.closed) }
      return state.count == 0 ? .found(.taken) : .wait(untilMilliseconds: nil)
    }
  }

  /// Nothing follows.
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

  /// Copies what there is; with nothing there, the connection sleeps until there is. What libmicrohttpd's reader
  /// returns.
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

  /// Nobody reads any more.
  func close() {
    state.notify { state in
      state.isClosed = true
      Self.wake(&state)
    }
  }
}
