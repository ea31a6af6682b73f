import ApusAdmin
import ApusCore
import ApusLog
import ApusLoop
import ApusModel
import ApusTLS

// What a connection does while its peer has not proved who it is: at times that `UntrustedWork` gives it.

extension Connection {
  /// Whether it may read now what its peer has sent; if not, nothing is read until it may.
  func mayRead() -> Bool {
    if isTrusted || table.untrustedWork.mayRead(self) { return true }
    holdBack()
    return false
  }

  /// It is its turn.
  func goOnReading() {
    untrusted.turnCame()
    if untrusted.waiting.isEmpty || !isOpen {
      read(times: 1)
    } else {
      takeWaiting(upTo: Limits.untrustedTurnBytes)
      markDirty()
    }
    if !untrusted.isHeldBack { updateInterest() }
  }

  /// Hands the protocol the first bytes that wait, or all of them once the peer is trusted. Nothing more is read while
  /// others wait.
  func takeWaiting(upTo limit: Int) {
    guard !untrusted.waiting.isEmpty, !isLeaving else { return }
    var bytes = untrusted.takeWaiting()
    var count = min(limit, bytes.count)
    unsafe bytes.withUnsafeBytes { all in
      unsafe received(UnsafeRawBufferPointer(rebasing: all[..<count]))
      guard isTrusted, isOpen, count < all.count else { return }
      unsafe received(UnsafeRawBufferPointer(rebasing: all[count...]))
      count = all.count
    }
    guard isOpen, count < bytes.count else { return }
    bytes.removeFirst(count)
    untrusted.putBack(bytes)
    guard !isLeaving else { return }
    table.untrustedWork.wait(self)
    holdBack()
  }

  private func holdBack() {
    untrusted.holdBack()
    updateInterest()
  }

  // MARK: Handshakes

  func shakeHands() {
    if table.untrustedWork.mayShakeHands(self) { takeStep() } else { holdBack() }
  }

  /// It is its turn.
  func goOnShakingHands() {
    untrusted.turnCame()
    // Half a handshake for somebody who has given up keeps all who wait behind him. With the second flight something
    // may have come that is to be taken, and the dear part is done.
    guard isHalfOpen || !socket.hasPeerFinished else { return abort() }
    takeStep()
  }

  private func takeStep() {
    let buffer = unsafe receiveBuffer
    switch unsafe socket.read(into: buffer) {
    case .bytes(let count):
      unsafe takeFlight(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
    case .wouldBlock: updateInterest()
    case .endOfStream, .failed: abort()
    }
  }

  /// Takes what has come of the peer's flight, and answers it.
  private func takeFlight(_ flight: UnsafeRawBufferPointer) {
    let buffers = context.tlsBuffers
    unsafe tls.provide(flight, buffers: buffers)
    let outcome = tls.read(buffers: buffers)
    let rejected = buffers.takeRejectedCertificate()
    let rest = buffers.takeInput()
    // Who was refused is written down before the peer learns of it.
    switch outcome {
    case .closedByPeer: return failed(.truncated)
    case .failed(let error): return failed(error, rejected)
    // There is no plaintext before the handshake is completed.
    case .needsInput, .plaintext, .handshakeCompleted: writeOutput()
    }
    // The write may have found the peer gone.
    guard stage == .handshaking else { return }
    guard case .handshakeCompleted = outcome else { return awaitNextFlight() }
    established()
    if isOpen, !rest.isEmpty { unsafe rest.withUnsafeBytes { unsafe pump($0) } }
    updateInterest()
    markDirty()
  }

  private func awaitNextFlight() {
    if !isHalfOpen {
      untrusted.handshakeBegan(atMilliseconds: context.loop.nowMilliseconds)
      table.untrustedWork.handshakeBegan(self, table)
    }
    updateInterest()
  }

  /// The handshake took too long.
  func handshakeTimedOut() { endHandshake(.handshakeTimedOut, .handshakeTime) }

  /// The peer has had its time for the next step, and others wait to begin.
  func makeRoomForHandshake() { endHandshake(.handshakeMadeRoom, .halfOpen) }

  private func endHandshake(_ kind: Log.Kind, _ limit: ConnectionLimit) {
    context.ended.count(limit)
    logLimited(.info, kind) {
      [.text("peer", peer.description), .text("listener", listener.name)]
    }
    abort()
  }

  var isHalfOpen: Bool { untrusted.isHalfOpen }

  /// The handshake is completed, or over.
  func endHandshake() {
    guard isHalfOpen else { return }
    untrusted.handshakeEnded()
    table.untrustedWork.handshakeEnded(self)
  }
}
