import ApusAdmin
import ApusCore
import ApusLog
import ApusLoop
import ApusModel

// The time limits of a connection.

extension Connection {
  func watch() { table.watch(self) }

  /// The deadline came; the connection decides whether it is over or looks again later.
  func deadlineReached() {
    switch stage {
    case .closed: return
    case .handshaking where untrusted.isHeldBack && !context.shutdown.isDraining:
      // The peer has done its part.
      schedule.deadlineSeconds = context.nowSeconds + UInt64(Limits.handshakeSeconds)
    case .handshaking: handshakeTimedOut()
    case .finishing, .pausing, .closing:
      guard !isStalled, let driver else { return abort() }
      driver.deadlineReached()
    case .lingering(let linger): lingerEnded(linger)
    case .open, .leaving, .ending:
      if isStalled {
        context.ended.count(.unread)
        logLimited(.info, .peerDoesNotRead) { [.text("peer", peer.description)] }
        return abort()
      }
      if let driver { driver.deadlineReached() } else { abort() }
      markDirty()
    }
    if stage != .closed { watch() }
  }

  private var isStalled: Bool { schedule.isStalled(atSeconds: context.nowSeconds) }
}
