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
  private var unsent: [UInt8] = []
  private var unsentHead = 0
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

  private var unsentByteCount: Int { unsent.count - unsentHead }

  /// Moves the ciphertext out of the shared buffers, to the socket as far as it takes it.
  func writeOutput(_ buffers: TLSBuffers) -> Outcome {
    guard buffers.outputCount > 0 else { return .done }
    defer { buffers.removeAllOutput() }
    let output = unsafe buffers.output
    guard unsentByteCount == 0 else {
      unsafe unsent.append(contentsOf: output)
      updateInterest()
      return .done
    }
    var written = 0
    while written < output.count {
      switch unsafe socket.write(UnsafeRawBufferPointer(rebasing: output[written...])) {
      case .bytes(let count): written += count
      case .wouldBlock:
        unsafe unsent.append(contentsOf: output[written...])
        stalled()
        return .done
      case .endOfStream: return .failed(0)
      case .failed(let code): return .failed(code)
      }
    }
    return .done
  }

  /// The socket takes more.
  func writeUnsent() -> Outcome {
    while unsentHead < unsent.count {
      let result = unsafe unsent.withUnsafeBytes { bytes in
        unsafe socket.write(UnsafeRawBufferPointer(rebasing: bytes[unsentHead...]))
      }
      switch result {
      case .bytes(let count):
        unsentHead += count
        stalled()
      case .wouldBlock: return .done
      case .endOfStream: return .failed(0)
      case .failed(let code): return .failed(code)
      }
    }
    unsent = []
    unsentHead = 0
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
      reading: unsentByteCount < Limits.outputHighWaterBytes, writing: unsentByteCount > 0)
  }

  /// Says close_notify behind everything, and shuts our side once that is written.
  func shut(_ buffers: TLSBuffers) {
    tls.close(buffers: buffers)
    _ = writeOutput(buffers)
    if unsentByteCount == 0 { socket.shutdownWrite() } else { shutsWhenWritten = true }
  }

  /// Says close_notify, or the alert that stands in the output, if the socket takes it at once; and is gone.
  func close(_ buffers: TLSBuffers) {
    tls.close(buffers: buffers)
    _ = writeOutput(buffers)
    socket.close()
  }
}
