import ApusLoop
import ApusModel
import ApusTLS

/// The socket and the TLS of one connection, and the ciphertext between them.
final class Transport {
  enum Outcome {
    case done
    case failed(Int32)
  }

  let socket: Socket
  let tls: TLSConnection
  let address: SocketAddress
  /// Ciphertext that the socket did not take.
  private var unsent = OutputQueue()
  private var shutsWhenWritten = false
  private let loop: EventLoop
  /// When the service counts as stuck; nil while it takes everything.
  private(set) var stallDeadline: UInt64?

  init(socket: Socket, tls: TLSConnection, address: SocketAddress, loop: EventLoop) {
    self.socket = socket
    self.tls = tls
    self.address = address
    self.loop = loop
  }

  /// Moves the ciphertext out of the shared buffers, to the socket as far as it takes it.
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

  /// The socket takes more.
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

  /// A service that does not take our answers is not read on: they would pile up here.
  func updateInterest() {
    socket.setInterest(
      reading: unsent.count < Limits.outputHighWaterBytes, writing: !unsent.isEmpty)
  }

  /// Says close_notify behind everything, and shuts our side once that is written.
  func shut(_ buffers: TLSBuffers) {
    tls.close(buffers: buffers)
    _ = writeOutput(buffers)
    if unsent.isEmpty { socket.shutdownWrite() } else { shutsWhenWritten = true }
  }

  /// Says close_notify, or the alert that stands in the output, if the socket takes it at once; and is gone.
  func close(_ buffers: TLSBuffers) {
    tls.close(buffers: buffers)
    _ = writeOutput(buffers)
    socket.close()
  }
}
