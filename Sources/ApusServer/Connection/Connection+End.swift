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
    markDirty()
  }

  /// Lets the protocol write, and begins the end where that was its last.
  func flushDriver() {
    if let driver {
      let ending = driver.flush()
      if ending != .none { self.ending = ending }
    }
    guard stage == .open else { return }
    switch ending {
    case .none: return
    case .now: sayGoodbye()
    case .afterPause:
      stage = .finishing
      forgetDeadline()
    }
    if !awaitsConfirmation { driverClosed(.peerFinished) }
  }

  private func sayGoodbye() {
    tls.close(buffers: context.tlsBuffers)
    stage = .closing
    forgetDeadline()
  }

  /// What is left to be written has no deadline but that of a stall, except for a list of feedback: nobody gets the
  /// rest of it with an expired certificate.
  private func forgetDeadline() {
    if !awaitsConfirmation { deadlineSeconds = .max }
  }

  /// Everything that was to be written is with the system.
  func goOnEnding() {
    switch stage {
    case .finishing:
      stage = .pausing
      table.pause(self)
    case .closing: shut()
    case .handshaking, .open, .pausing, .lingering, .closed: return
    }
  }

  /// The pause behind the last words is over.
  func pauseEnded() {
    guard stage == .pausing else { return }
    sayGoodbye()
    // What TLS has to say lies in the worker's buffer, which is the next connection's in a moment.
    writeOutput()
    markDirty()
  }

  private func shut() {
    if isPeerFinished, !awaitsConfirmation { return abort(.peerFinished) }
    stage = .lingering
    socket.shutdownWrite()
    updateInterest()
    linger.sinceSeconds = context.nowSeconds
    // What its system has of the last words is looked at each second.
    deadlineSeconds = linger.sinceSeconds + (awaitsConfirmation ? 1 : Self.lingerSeconds)
    watch()
  }

  /// Whether what the peer sends is read, and thrown away, whatever waits to be written.
  var isDiscarding: Bool {
    switch stage {
    case .finishing, .pausing, .lingering: true
    case .handshaking, .open, .closing, .closed: false
    }
  }

  /// Reads what the peer still sends, and throws it away.
  func discardInput(times: Int) {
    for _ in 0..<times {
      switch unsafe socket.read(into: context.receiveBuffer) {
      case .bytes: continue
      case .wouldBlock: return
      case .endOfStream:
        isPeerFinished = true
        return stage == .lingering ? peerFinishedLate() : updateInterest()
      case .failed: return abort()
      }
    }
  }

  private var awaitsConfirmation: Bool { driver?.awaitsConfirmation == true }

  /// Whether the peer's system has everything.
  private var isTaken: Bool { unsent.isEmpty && socket.unacknowledgedByteCount == 0 }

  /// The peer shut its side while it was waited for. It may have done so long before, when it had read nothing: then
  /// again only its system can tell.
  func peerFinishedLate() {
    guard awaitsConfirmation, !isTaken else { return abort(.peerFinished) }
    updateInterest()
    deadlineSeconds = context.nowSeconds + 1
    watch()
  }

  func lingerEnded() {
    guard awaitsConfirmation else { return abort(.timedOut(isTaken: isTaken)) }
    let (wasTaken, isTaken) = (linger.isSeenTaken, isTaken)
    if isPeerFinished, isTaken { return abort(.peerFinished) }
    // What came late, through a network that was away, is to have its reader's time too.
    if isTaken, !wasTaken {
      linger = Linger(sinceSeconds: context.nowSeconds, isSeenTaken: true)
    }
    guard context.nowSeconds < linger.sinceSeconds + UInt64(Limits.feedbackTakenSeconds) else {
      return abort(.timedOut(isTaken: isTaken))
    }
    deadlineSeconds = context.nowSeconds + 1
  }

  /// Ends the connection without another word.
  func abort(_ end: End = .cut) {
    guard stage != .closed else { return }
    driverClosed(end)
    stage = .closed
    unsent.removeAll()
    socket.close()
    table.forget(self)
  }

  func driverClosed(_ end: End) {
    let ended = driver.take()
    ended?.connectionClosed(end)
  }
}
