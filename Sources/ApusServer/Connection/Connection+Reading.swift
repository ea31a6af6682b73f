import ApusLoop
import ApusModel

// From the socket into the worker's buffer.

extension Connection {
  private static let readsPerTurn = 4

  func socketReadable() {
    if stage == .handshaking {
      return untrusted.awaitsProxyHeader ? readProxyHeader() : shakeHands()
    }
    if mayRead() { read(times: isTrusted ? Self.readsPerTurn : 1) }
  }

  func read(times: Int) {
    guard isOpen else { return discardInput(times: times) }
    for _ in 0..<times {
      guard isOpen, !wantsPause else { break }
      let buffer = unsafe receiveBuffer
      switch unsafe socket.read(into: buffer) {
      case .bytes(let count):
        unsafe pump(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
        if count < buffer.count { return markDirty() }
      case .wouldBlock: return markDirty()
      case .endOfStream: return peerFinished()
      case .failed: return abort()
      }
    }
    if stage != .closed { markDirty() }
  }

  var receiveBuffer: UnsafeMutableRawBufferPointer {
    guard !isTrusted else { return unsafe context.receiveBuffer }
    return unsafe UnsafeMutableRawBufferPointer(
      rebasing: context.receiveBuffer[..<Limits.untrustedReadBytes])
  }

  private func discardInput(times: Int) {
    for _ in 0..<times {
      switch unsafe socket.read(into: context.receiveBuffer) {
      case .bytes: continue
      case .wouldBlock: return
      case .endOfStream: return discardedInputEnded()
      case .failed: return abort()
      }
    }
  }

  /// Tells the peer's kernel at once what has arrived.
  func acknowledgeNow() { socket.acknowledgeNow() }
}
