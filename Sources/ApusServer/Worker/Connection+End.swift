import ApusCore
import ApusLoop
import ApusModel
import ApusTLS

// How a connection ends without its last words being lost: what the protocol has to say, a pause where old clients
// need one, close_notify, our side shut, and a moment in which the peer's bytes are read and thrown away.

extension Connection {
  private static let lingerSeconds: UInt64 = 5

  /// Ends the connection when the turn ends.
  func close() {
    ending = .now
    if stage == .handshaking { stage = .closing }
    worker.markDirty(self)
  }

  /// Lets the protocol write, and begins the end where that was its last.
  func flushDriver() {
    switch driver {
    case .provider(let provider): if provider.flush() { ending = .now }
    case .courier(let courier): courier.flush()
    case .gateway(let provider): end(provider.flush())
    case .feedback(let reader): end(reader.flush())
    case .none: break
    }
    guard stage == .open else { return }
    switch ending {
    case .none: return
    case .now: sayGoodbye()
    case .afterPause:
      stage = .pausing
      forgetDeadline()
    }
    // A reader of feedback is to learn whether its last words arrived.
    if case .feedback = driver { return }
    driverClosed(.peerFinished)
  }

  private func end(_ ending: Ending) {
    if ending != .none { self.ending = ending }
  }

  private func sayGoodbye() {
    tls.close(buffers: worker.tlsBuffers)
    stage = .closing
    forgetDeadline()
  }

  /// What is left to be written has no deadline but that of a stall, except for a list of feedback: nobody gets the
  /// rest of it with an expired certificate.
  private func forgetDeadline() {
    if !awaitsEnd { deadlineSeconds = .max }
  }

  /// Everything that was to be written is with the system.
  func goOnEnding() {
    switch stage {
    case .pausing:
      guard !isPauseTimed else { return }
      isPauseTimed = true
      worker.pause(self)
    case .closing: shut()
    case .handshaking, .open, .lingering, .closed: return
    }
  }

  /// The pause behind the last words is over.
  func pauseEnded() {
    guard stage == .pausing else { return }
    sayGoodbye()
    // What TLS has to say lies in the worker's buffer, which is the next connection's in a moment.
    writeOutput()
    worker.markDirty(self)
  }

  private func shut() {
    if isPeerFinished, !awaitsEnd { return abort(.peerFinished) }
    stage = .lingering
    socket.shutdownWrite()
    updateInterest()
    silentSeconds = worker.nowSeconds
    // What its system has of the last words is looked at each second.
    deadlineSeconds = silentSeconds + (awaitsEnd ? 1 : Self.lingerSeconds)
    worker.watch(self)
  }

  /// Reads what the peer still sends, and throws it away.
  func discardInput(times: Int) {
    for _ in 0..<times {
      switch unsafe socket.read(into: worker.receiveBuffer) {
      case .bytes: continue
      case .wouldBlock: return
      case .endOfStream:
        isPeerFinished = true
        return stage == .lingering ? peerFinishedLate() : updateInterest()
      case .failed: return abort()
      }
    }
  }

  private var awaitsEnd: Bool {
    if case .feedback = driver { true } else { false }
  }

  /// Whether the peer's system has everything.
  private var isTaken: Bool { unsent.isEmpty && socket.unacknowledgedByteCount == 0 }

  /// The peer shut its side while it was waited for. It may have done so long before, when it had read nothing: then
  /// again only its system can tell.
  func peerFinishedLate() {
    guard awaitsEnd, !isTaken else { return abort(.peerFinished) }
    updateInterest()
    deadlineSeconds = worker.nowSeconds + 1
    worker.watch(self)
  }

  func lingerEnded() {
    guard awaitsEnd else { return abort(.timedOut(isTaken: isTaken)) }
    let (wasTaken, isTaken) = (isSeenTaken, isTaken)
    if isPeerFinished, isTaken { return abort(.peerFinished) }
    // What came late, through a network that was away, is to have its reader's time too.
    if isTaken, !wasTaken { (isSeenTaken, silentSeconds) = (true, worker.nowSeconds) }
    guard worker.nowSeconds < silentSeconds + UInt64(Limits.feedbackTakenSeconds) else {
      return abort(.timedOut(isTaken: isTaken))
    }
    deadlineSeconds = worker.nowSeconds + 1
  }

  /// Ends the connection without another word.
  func abort(_ end: End = .cut) {
    guard stage != .closed else { return }
    driverClosed(end)
    stage = .closed
    unsent.removeAll()
    socket.close()
    worker.forget(self)
  }

  func driverClosed(_ end: End) {
    let ended = driver
    driver = .none
    switch ended {
    case .provider(let provider): provider.connectionClosed()
    case .courier(let courier): courier.connectionClosed()
    case .feedback(let reader): reader.connectionClosed(end)
    case .gateway(let provider): provider.connectionClosed()
    case .none: break
    }
  }
}
