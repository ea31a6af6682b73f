import ApusAdmin
import ApusCore
import ApusLog
import ApusLoop
import ApusModel
import ApusTLS

// The steps of an untrusted peer's connection, when `UntrustedWork` gives it a turn.

extension Connection {
  /// Whether the connection may read now; otherwise it gets a turn later, and nothing is read until then.
  func mayRead() -> Bool {
    if isTrusted || table.untrustedWork.mayRead(self) { return true }
    holdBack()
    return false
  }

  /// The connection has its turn to read.
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

  /// Hands the protocol the first waiting bytes, or all of them once the peer is trusted. Nothing more is read while
  /// the rest waits.
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

  /// The connection has its turn for a step of its handshake.
  func goOnShakingHands() {
    untrusted.turnCame()
    // A step for a peer that has given up would only delay the others. After the second flight there may be input to
    // process, and the expensive part is done.
    guard isHalfOpen || !socket.hasPeerFinished else { return abort() }
    takeStep()
  }

  private func takeStep() {
    // What the client sent right behind the proxy's header.
    let first = untrusted.takeWaiting()
    guard first.isEmpty else { return unsafe first.withUnsafeBytes { unsafe takeFlight($0) } }
    let buffer = unsafe receiveBuffer
    switch unsafe socket.read(into: buffer) {
    case .bytes(let count):
      unsafe takeFlight(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
    case .wouldBlock: updateInterest()
    case .endOfStream, .failed: abort()
    }
  }

  /// Processes the bytes of the peer's flight, and responds.
  private func takeFlight(_ flight: UnsafeRawBufferPointer) {
    let buffers = context.tlsBuffers
    unsafe tls.provide(flight, buffers: buffers)
    let outcome = tls.read(buffers: buffers)
    let rejected = buffers.takeRejectedCertificate()
    let rest = buffers.takeInput()
    // The refusal is logged before the peer learns of it.
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

  /// The peer took too long for the next step, and other handshakes wait to begin.
  func makeRoomForHandshake() { endHandshake(.handshakeMadeRoom, .halfOpen) }

  private func endHandshake(_ kind: Log.Kind, _ limit: ConnectionLimit) {
    context.ended.count(limit)
    logLimited(.info, kind) {
      [.text("peer", peer.description), .text("listener", listener.name)]
        + (untrusted.awaitsProxyHeader ? [.text("reason", "no PROXY header came")] : [])
    }
    abort()
  }

  var isHalfOpen: Bool { untrusted.isHalfOpen }

  /// The handshake is completed or has failed.
  func endHandshake() {
    guard isHalfOpen else { return }
    untrusted.handshakeEnded()
    table.untrustedWork.handshakeEnded(self)
  }
}
