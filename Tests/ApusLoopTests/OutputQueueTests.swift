import Glibc
import Testing

@testable import ApusLoop

@Suite(.timeLimit(.minutes(30)))
struct OutputQueueTests {
  /// MSG_DONTWAIT. Spelled out, because the constant's type depends on which module's headers came first.
  private static let doNotWait: Int32 = 0x40

  /// The result of each step, and what the other side read.
  struct Transcript: Sendable {
    var outcomes: [OutputQueue.Outcome] = []
    var waiting: [Int] = []
    var received: [UInt8] = []
  }

  /// Runs `body` with a socket, on its loop, and the descriptor of the other side.
  private func withSocket<Result: Sendable>(
    _ body: @escaping @Sendable (Socket, Int32) throws -> Result
  ) async throws -> Result {
    try await withLoops("queue") { loops in
      let loop = loops[0]
      return try await loop.on {
        let (descriptor, other) = try socketPair()
        defer { Glibc.close(other) }
        let socket = try Socket(adopting: descriptor, loop: loop)
        defer { socket.close() }
        return try body(socket, other)
      }
    }
  }

  @Test("Bytes that a full socket does not accept wait, and follow in order")
  func order() async throws {
    let bytes = (0..<(4 << 20)).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) }
    let last: [UInt8] = [1, 2, 3]
    let transcript = try await withSocket { socket, other in
      var transcript = Transcript()
      var queue = OutputQueue()
      func note(_ outcome: OutputQueue.Outcome) {
        transcript.outcomes.append(outcome)
        transcript.waiting.append(queue.count)
      }
      note(bytes.withUnsafeBytes { queue.write($0, to: socket) })
      note(last.withUnsafeBytes { queue.write($0, to: socket) })
      note(queue.writeWaiting(to: socket))
      var outcome = OutputQueue.Outcome.blocked
      var buffer = [UInt8](repeating: 0, count: 65536)
      while transcript.received.count < bytes.count + last.count {
        let count = recv(other, &buffer, buffer.count, Self.doNotWait)
        try #require(count > 0)
        transcript.received += buffer[..<count]
        outcome = queue.writeWaiting(to: socket)
      }
      note(outcome)
      return transcript
    }
    let expected: [OutputQueue.Outcome] = [.blocked, .queued, .blocked, .written]
    #expect(transcript.outcomes == expected)
    #expect(transcript.waiting[0] > 0 && transcript.waiting[0] < bytes.count)
    #expect(transcript.waiting[1] == transcript.waiting[0] + last.count)
    #expect(transcript.waiting[2] == transcript.waiting[1])
    #expect(transcript.waiting[3] == 0)
    #expect(transcript.received == bytes + last)
  }

  @Test("Bytes that the socket accepts at once do not wait, and an empty queue has nothing waiting")
  func written() async throws {
    let outcomes = try await withSocket { socket, _ in
      var queue = OutputQueue()
      let first = [UInt8]([1, 2, 3]).withUnsafeBytes { queue.write($0, to: socket) }
      return (first, queue.isEmpty, queue.writeWaiting(to: socket))
    }
    #expect(outcomes.0 == .written && outcomes.1 && outcomes.2 == .written)
  }

  @Test("A peer that has closed is an error, also for waiting bytes")
  func gone() async throws {
    let bytes = [UInt8](repeating: 7, count: 4 << 20)
    let outcomes = try await withSocket { socket, other in
      var queue = OutputQueue()
      let full = bytes.withUnsafeBytes { queue.write($0, to: socket) }
      shutdown(other, Int32(SHUT_RDWR))
      let waiting = queue.writeWaiting(to: socket)
      queue.removeAll()
      return (full, waiting, queue.isEmpty, bytes.withUnsafeBytes { queue.write($0, to: socket) })
    }
    #expect(outcomes.0 == .blocked && outcomes.1 == .failed(EPIPE) && outcomes.2)
    #expect(outcomes.3 == .failed(EPIPE))
  }
}
