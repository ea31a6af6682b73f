import Glibc

/// What a socket has not taken yet of the bytes that go to it, in their order.
///
/// Holds no memory while the socket takes everything.
package struct OutputQueue {
  package enum Outcome: Equatable, Sendable {
    /// Everything is with the system.
    case written
    /// Put behind what was waiting already; the socket was not asked.
    case queued
    /// The system took some of it or nothing, and the rest waits: ask for interest in writing.
    case blocked
    /// `errno`.
    case failed(Int32)
  }

  private var bytes: [UInt8] = []
  /// How many of `bytes` the system has.
  private var head = 0

  package init() {}

  /// Bytes that wait.
  package var count: Int { bytes.count - head }

  package var isEmpty: Bool { count == 0 }

  /// Writes `output`, and keeps what the socket does not take now.
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
      // Only reading ends; the peer's refusal to be written to is an error.
      case .endOfStream: return .failed(EPIPE)
      case .failed(let code): return .failed(code)
      }
    }
    return .written
  }

  /// Writes what waits: the socket takes more.
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

  /// Drops what waits.
  package mutating func removeAll() {
    bytes = []
    head = 0
  }
}
