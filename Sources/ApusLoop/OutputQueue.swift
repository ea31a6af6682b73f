import Glibc

/// Bytes for a socket that it has not accepted yet, in order.
///
/// Holds no memory while the socket accepts everything.
package struct OutputQueue {
  package enum Outcome: Equatable, Sendable {
    /// The system has accepted everything.
    case written
    /// Added to the bytes that already wait; the socket was not tried.
    case queued
    /// The system accepted part or nothing, and the rest waits: ask for interest in writing.
    case blocked
    /// `errno`.
    case failed(Int32)
  }

  private var bytes: [UInt8] = []
  /// How many of `bytes` the system has accepted.
  private var head = 0

  package init() {}

  /// Bytes that wait.
  package var count: Int { bytes.count - head }

  package var isEmpty: Bool { count == 0 }

  /// Writes `output`, and keeps what the socket does not accept now.
  package mutating func write(_ output: UnsafeRawBufferPointer, to socket: Socket) -> Outcome {
    guard isEmpty else {
      unsafe bytes.append(contentsOf: output)
      return .queued
    }
    var written = 0
    while written < output.count {
      switch unsafe socket.write(UnsafeRawBufferPointer(rebasing: output[written...])) {
      case .bytes(let count): written += count
      case .wouldBlock:
        unsafe bytes.append(contentsOf: output[written...])
        return .blocked
      // Only reading can end; a peer that no longer receives is an error.
      case .endOfStream: return .failed(EPIPE)
      case .failed(let code): return .failed(code)
      }
    }
    return .written
  }

  /// Writes the waiting bytes: the socket is writable.
  package mutating func writeWaiting(to socket: Socket) -> Outcome {
    while head < bytes.count {
      switch socket.write(bytes.span.extracting(head...)) {
      case .bytes(let count): head += count
      case .wouldBlock: return .blocked
      case .endOfStream: return .failed(EPIPE)
      case .failed(let code): return .failed(code)
      }
    }
    removeAll()
    return .written
  }

  /// Drops the waiting bytes.
  package mutating func removeAll() {
    bytes = []
    head = 0
  }
}
