/// How far the end of a session has come.
struct SessionEnd {
  private enum Stage {
    case open
    /// GOAWAY named the last stream: later ones are not processed.
    case final
    case failed
  }

  private enum Announcement {
    case none
    case sent
    case seen
  }

  private var stage = Stage.open
  /// Separate from the stage, because the peer may end the session before it has read the announcement.
  private var announcement = Announcement.none
  /// The limit for which the session has failed; nil also if the peer broke the protocol.
  private(set) var exceededLimit: HTTP2ServerSession.ExceededLimit?

  var isFinal: Bool { stage == .final }
  var hasFailed: Bool { stage == .failed }
  var isAnnounced: Bool { announcement == .sent }
  var isAnnouncementSeen: Bool { announcement == .seen }

  /// False if the end was announced before, or has begun.
  mutating func announce() -> Bool {
    guard announcement == .none, stage == .open else { return false }
    announcement = .sent
    return true
  }

  /// The client has read the announcement.
  mutating func announcementWasSeen() { announcement = .seen }

  /// False if the last stream was named before, or the session has failed.
  mutating func finish() -> Bool {
    guard stage == .open else { return false }
    stage = .final
    return true
  }

  /// False if the session has failed before.
  mutating func fail(_ limit: HTTP2ServerSession.ExceededLimit?) -> Bool {
    guard stage != .failed else { return false }
    stage = .failed
    exceededLimit = limit
    return true
  }
}
