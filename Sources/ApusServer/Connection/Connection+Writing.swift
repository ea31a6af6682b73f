import ApusLoop
import ApusModel
import ApusTLS

// From the protocol's plaintext to the socket.

extension Connection {
  /// Encrypts plaintext; the ciphertext leaves with the next `writeOutput`.
  func encrypt(_ plaintext: borrowing [UInt8], count: Int) {
    guard isOpen, count > 0 else { return }
    if let linked { return linked.write(plaintext.span.extracting(..<count)) }
    do {
      try unsafe plaintext.withUnsafeBytes { bytes in
        try unsafe tls.write(
          UnsafeRawBufferPointer(rebasing: bytes[..<count]), buffers: context.tlsBuffers)
      }
    } catch {
      encryptionFailed()
    }
  }

  /// Moves the ciphertext of this connection out of the worker's buffer, to the socket as far as it takes it.
  func writeOutput() {
    let buffers = context.tlsBuffers
    // A link's own output may be there while its clients are served.
    guard buffers.outputCount > 0, linked == nil else { return }
    defer { buffers.removeAllOutput() }
    unsafe write(buffers.output)
  }

  /// Sends ciphertext, as far as the socket takes it.
  private func write(_ ciphertext: UnsafeRawBufferPointer) {
    guard stage != .closed, !isLingering, unsafe !ciphertext.isEmpty else { return }
    switch unsafe unsent.write(ciphertext, to: socket) {
    case .written, .queued: break
    case .blocked: outputWaits()
    case .failed: abort()
    }
  }

  /// The socket did not take all output: the loop reports when it does, and the peer has a time limit.
  func outputWaits() {
    updateInterest()
    schedule.outputWaits(until: stallLimit)
    watch()
  }

  func socketWritable() {
    let before = unsent.count
    let outcome = unsent.writeWaiting(to: socket)
    if unsent.count < before { schedule.outputMoved(until: stallLimit) }
    switch outcome {
    case .written:
      schedule.outputTaken()
      updateInterest()
      markDirty()
    case .queued, .blocked: break
    case .failed: abort()
    }
  }

  private var stallLimit: UInt64 { context.nowSeconds + UInt64(Limits.writeStallSeconds) }
}
