import ApusModel

/// Ends a provider's HTTP/2 connection without losing a request.
///
/// RFC 9113, section 6.8: a GOAWAY with stream id 2^31-1 announces the end, and a PING after it shows when the client
/// has read it; requests sent before are still answered. Then the final GOAWAY names the last stream.
///
/// Some clients close a connection on the first GOAWAY that they read and fail everything in flight. So the
/// announcement is sent together with the answer to the last open stream: at once if none is open, and if streams are
/// always open, with the next answer after `Limits.drainPatienceSeconds`. Sent after that answer, in a record of its
/// own, it would reach clients that send one request at a time while their next one is under way.
///
/// After carrying out an action the driver calls ``flush(openStreams:isWriting:)`` again until it returns `none`.
package struct Drain: Sendable {
  package enum Action: Sendable, Hashable {
    case none
    /// Send GOAWAY with last stream id 2^31-1, and a PING; keep answering, new streams too.
    case announce
    /// Send GOAWAY with the id of the last stream to be answered; refuse streams above it.
    case sendFinalGoAway
    /// Flush, then close_notify and FIN.
    case close
  }

  private enum State: Sendable {
    case serving
    case waitingForGap(sinceSeconds: Int64)
    /// `isSeen`: the client has read the announcement, or does not respond.
    case announced(sinceSeconds: Int64, isSeen: Bool)
    case ending(sinceSeconds: Int64)
    case closed
  }

  private var state = State.serving
  private var lastSeconds: Int64 = 0

  package init() {}

  /// Whether the drain has begun.
  package var isDraining: Bool {
    if case .serving = state { false } else { true }
  }

  /// Whether a new stream is still answered. Streams after the final GOAWAY were told to go elsewhere.
  package var acceptsStreams: Bool {
    switch state {
    case .serving, .waitingForGap, .announced: true
    case .ending, .closed: false
    }
  }

  /// Begins the drain.
  package mutating func begin(nowSeconds: Int64) {
    guard case .serving = state else { return }
    lastSeconds = nowSeconds
    state = .waitingForGap(sinceSeconds: nowSeconds)
  }

  /// The client has acknowledged the PING.
  package mutating func announcementSeen() {
    guard case .announced(let since, _) = state else { return }
    state = .announced(sinceSeconds: since, isSeen: true)
  }

  /// Call it before pending output is sent, so that the action's frame is sent along.
  ///
  /// - Parameters:
  ///   - openStreams: Streams whose answers are not in that output.
  ///   - isWriting: Whether there is output to send.
  package mutating func flush(openStreams: Int, isWriting: Bool) -> Action {
    switch state {
    case .serving, .closed: return .none
    case .waitingForGap(let since):
      let isLate = hasPassed(Limits.drainPatienceSeconds, since: since)
      guard openStreams == 0 || isLate && isWriting else { return .none }
      state = .announced(sinceSeconds: lastSeconds, isSeen: false)
      return .announce
    case .announced(_, let isSeen):
      guard isSeen, openStreams == 0 else { return .none }
      state = .ending(sinceSeconds: lastSeconds)
      return .sendFinalGoAway
    case .ending:
      guard openStreams == 0 else { return .none }
      state = .closed
      return .close
    }
  }

  /// Checks the time. Each wait takes at most `Limits.drainGapSeconds`, so a drain ends within three of them. If the
  /// clock was set back the wait restarts.
  package mutating func tick(nowSeconds: Int64) -> Action {
    lastSeconds = nowSeconds
    switch state {
    case .serving, .closed: return .none
    case .waitingForGap(let since):
      guard hasPassed(Limits.drainGapSeconds, since: since) else {
        state = .waitingForGap(sinceSeconds: min(since, nowSeconds))
        return .none
      }
      state = .announced(sinceSeconds: nowSeconds, isSeen: false)
      return .announce
    case .announced(let since, let isSeen):
      guard hasPassed(Limits.drainGapSeconds, since: since) else {
        let isOver = hasPassed(Limits.drainPatienceSeconds, since: since)
        state = .announced(sinceSeconds: min(since, nowSeconds), isSeen: isSeen || isOver)
        return .none
      }
      state = .ending(sinceSeconds: nowSeconds)
      return .sendFinalGoAway
    case .ending(let since):
      guard hasPassed(Limits.drainGapSeconds, since: since) else {
        state = .ending(sinceSeconds: min(since, nowSeconds))
        return .none
      }
      state = .closed
      return .close
    }
  }

  private func hasPassed(_ seconds: Int, since: Int64) -> Bool {
    saturatingDifference(lastSeconds, since) >= Int64(seconds)
  }
}
