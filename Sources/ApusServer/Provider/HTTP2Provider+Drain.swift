import ApusCore
import ApusHTTP2
import ApusModel

// How a provider's connection ends when the service stops; `Drain` says when.

extension HTTP2Provider {
  func goOnDraining() {
    if session.isAnnouncementSeen { ending.announcementSeen() }
    let open = session.unansweredStreamCount
    carryOut(ending.flush(openStreams: open, isWriting: session.wantsWrite))
  }

  func carryOut(_ action: Drain.Action) {
    switch action {
    case .none: return
    case .announce: session.announceShutdown()
    case .sendFinalGoAway:
      session.goAway(reason: .shutdown)
      isOver = true
    case .close: isOver = true
    }
    connection.markDirty()
  }
}
