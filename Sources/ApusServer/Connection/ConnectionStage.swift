extension Connection {
  /// The stages in their order. Some connections skip some; `closed` may follow any.
  enum Stage: Equatable {
    case handshaking
    case open
    /// Like `open`, and it moves to another worker when the turn ends.
    case leaving
    /// Like `open`, and it ends when the turn does, after the protocol's last output.
    case ending
    /// The last output is being written. From here on the peer's input is read and discarded: a close with unread bytes
    /// would make the kernel send a reset, which destroys the last output in the peer's buffer.
    case finishing
    /// The system has the last output; see `Limits.pauseBeforeCloseMilliseconds`.
    case pausing
    /// All output is queued, close_notify included; once it is written, our side is shut.
    case closing
    /// Our side is shut, and the peer has a moment to shut its own.
    case lingering(Linger)
    case closed

    /// Whether the protocol may receive and write.
    var isOpen: Bool {
      switch self {
      case .open, .leaving, .ending: true
      case .handshaking, .finishing, .pausing, .closing, .lingering, .closed: false
      }
    }

    /// Whether the peer's input is read and discarded, whatever waits to be written.
    var isDiscarding: Bool {
      switch self {
      case .finishing, .pausing, .lingering: true
      case .handshaking, .open, .leaving, .ending, .closing, .closed: false
      }
    }
  }

  /// How long the peer has had for the last output.
  struct Linger: Equatable {
    /// Second at which our side was shut. For a protocol that awaits confirmation: at which the peer's system was first
    /// seen to have all output.
    var sinceSeconds: UInt64
    /// Whether the peer's system was seen to have all output.
    var isSeenTaken = false
  }

  /// How the protocol ends its connection.
  enum Ending {
    case none
    case now
    /// With a pause before close_notify: see `Limits.pauseBeforeCloseMilliseconds`.
    case afterPause
  }

  /// How a connection ended.
  enum End {
    /// The peer shut its side, without a reset.
    case peerFinished
    /// The peer did not in time. `isTaken`: its system has acknowledged every byte.
    case timedOut(isTaken: Bool)
    /// Reset by the peer, or cut by the service.
    case cut
  }
}
