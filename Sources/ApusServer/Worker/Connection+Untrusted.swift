import ApusCore
import ApusLoop
import ApusModel
import ApusTLS

// What a connection does while its peer has not proved who it is: at times that `UntrustedWork` gives it.

extension Connection {
  var entry: DeadlineWheel.Entry { DeadlineWheel.Entry(slot: slot, generation: generation) }

  /// Whether it may read now what its peer has sent; if not, nothing is read until it may.
  func mayRead() -> Bool {
    if isTrusted || worker.untrustedWork.mayRead(self) { return true }
    holdBack()
    return false
  }

  /// It is its turn.
  func goOnReading() {
    isHeldBack = false
    if waiting.isEmpty || stage != .open {
      read(times: 1)
    } else {
      takeWaiting(upTo: Limits.untrustedTurnBytes)
      worker.markDirty(self)
    }
    if !isHeldBack { updateInterest() }
  }

  /// Hands the protocol the first bytes that wait, or all of them once the peer is trusted. Nothing more is read while
  /// others wait.
  func takeWaiting(upTo limit: Int) {
    guard !waiting.isEmpty else { return }
    var bytes: [UInt8] = []
    swap(&bytes, &waiting)
    var count = min(limit, bytes.count)
    unsafe bytes.withUnsafeBytes { all in
      unsafe received(UnsafeRawBufferPointer(rebasing: all[..<count]))
      guard isTrusted, stage == .open, count < all.count else { return }
      unsafe received(UnsafeRawBufferPointer(rebasing: all[count...]))
      count = all.count
    }
    guard stage == .open, count < bytes.count else { return }
    bytes.removeFirst(count)
    waiting = bytes
    worker.untrustedWork.wait(self)
    holdBack()
  }

  private func holdBack() {
    isHeldBack = true
    updateInterest()
  }

  // MARK: Handshakes

  func shakeHands() {
    guard worker.untrustedWork.mayShakeHands(self) else { return holdBack() }
    if !takeStep() { worker.untrustedWork.stepEnded() }
  }

  /// It is its turn. False where nothing came of that.
  func goOnShakingHands() -> Bool {
    isHeldBack = false
    // Half a handshake for somebody who has given up keeps all who wait behind him. With the second flight something
    // may have come that is to be taken, and the dear part is done.
    guard isHalfOpen || !socket.hasPeerFinished else {
      abort()
      return false
    }
    return takeStep()
  }

  private func takeStep() -> Bool {
    let buffer = unsafe receiveBuffer
    switch unsafe socket.read(into: buffer) {
    case .bytes(let count):
      // Nothing is read before the step is back.
      holdBack()
      worker.take(HandshakeStep(self, unsafe Array(buffer[..<count])))
      return true
    case .wouldBlock: updateInterest()
    case .endOfStream, .failed: abort()
    }
    return false
  }

  var isHalfOpen: Bool { halfOpenMilliseconds != .max }

  /// The handshake is completed, or over.
  func endHandshake() {
    guard isHalfOpen else { return }
    halfOpenMilliseconds = .max
    worker.untrustedWork.handshakeEnded()
  }

  /// A step was taken.
  func handshakeWent(_ step: HandshakeStep) {
    isHeldBack = false
    unsafe step.output.withUnsafeBytes { unsafe write($0) }
    // The write may have found the peer gone.
    guard stage == .handshaking else { return }
    switch step.outcome {
    case .needsInput:
      if !isHalfOpen {
        halfOpenMilliseconds = worker.loop.nowMilliseconds
        worker.untrustedWork.handshakeBegan(self, worker)
      }
      updateInterest()
    case .failed(let error): failed(error, step.rejected)
    case .completed:
      established()
      if stage == .open, !step.input.isEmpty {
        unsafe step.input.withUnsafeBytes { unsafe pump($0) }
      }
      updateInterest()
      worker.markDirty(self)
    }
  }
}
