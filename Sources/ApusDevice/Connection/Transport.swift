import ApusLoop
import ApusModel
import ApusTLS

/// The socket and TLS of one connection, and the ciphertext between them.
final class Transport {
  enum Outcome {
    case done
    case failed(Int32)
  }

  let socket: Socket
  let tls: TLSConnection
  let address: SocketAddress
  /// Ciphertext that the socket has not taken yet.
  private var unsent = OutputQueue()
  private var shutsWhenWritten = false
  private let loop: EventLoop
  /// When the service counts as stalled; nil while it reads everything.
  private(set) var stallDeadline: UInt64?

  init(socket: Socket, tls: TLSConnection, address: SocketAddress, loop: EventLoop) {
    self.socket = socket
    self.tls = tls
    self.address = address
    self.loop = loop
  }

  /// Moves the ciphertext from the shared buffers to the socket, as far as the socket takes it.
  func writeOutput(_ buffers: TLSBuffers) -> Outcome {
    guard buffers.outputCount > 0 else { return .done }
    defer { buffers.removeAllOutput() }
    switch unsafe unsent.write(buffers.output, to: socket) {
    case .written: break
    case .queued: updateInterest()
    case .blocked: stalled()
    case .failed(let code): return .failed(code)
    }
    return .done
  }

  /// The socket is writable again.
  func writeUnsent() -> Outcome {
    let before = unsent.count
    let outcome = unsent.writeWaiting(to: socket)
    if unsent.count < before { stalled() }
    switch outcome {
    case .written: break
    case .queued, .blocked: return .done
    case .failed(let code): return .failed(code)
    }
    stallDeadline = nil
    updateInterest()
    if shutsWhenWritten { socket.shutdownWrite() }
    return .done
  }

  private func stalled() {
    stallDeadline = loop.nowMilliseconds + UInt64(Limits.writeStallSeconds) * 1000
    updateInterest()
  }

  /// Stops reading from a service that does not read our answers, which would accumulate here.
  func updateInterest() {
    socket.setInterest(
      reading: unsent.count < Limits.outputHighWaterBytes, writing: !unsent.isEmpty)
  }

  /// Sends close_notify after all output, and shuts our side down once it is written.
  func shut(_ buffers: TLSBuffers) {
    tls.close(buffers: buffers)
    _ = writeOutput(buffers)
    if unsent.isEmpty { socket.shutdownWrite() } else { shutsWhenWritten = true }
  }

  /// Sends close_notify or the pending alert, if the socket takes it immediately, and closes.
  func close(_ buffers: TLSBuffers) {
    tls.close(buffers: buffers)
    _ = writeOutput(buffers)
    socket.close()
  }
}
