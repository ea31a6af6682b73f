import ApusModel

/// How a provider's HTTP/2 connection is ended without losing a request.
///
/// RFC 9113, section 6.8: a GOAWAY with stream id 2^31-1 announces the end, and a PING behind it shows when the client
/// knows; what it sent before is still answered. Then the final GOAWAY names the last stream.
///
/// Some clients tear a connection down on the first GOAWAY that they read and fail whatever is in flight. So the
/// announcement leaves together with the answer to the last open stream, at once where none is open, and where streams
/// are always open with the next answer after `Limits.drainPatienceSeconds`. Behind that answer, in a record of its
/// own, it would find clients that have one request at a time with their next one under way.
///
/// After carrying out an action the driver asks ``flush(openStreams:isWriting:)`` again until the answer is `none`.
package struct Drain: Sendable {
  package enum Action: Sendable, Hashable {
    case none
    /// Send GOAWAY with last stream id 2^31-1, and a PING; go on answering, new streams too.
    case announce
    /// Send GOAWAY with the id of the last stream that is answered; refuse streams above it.
    case sendFinalGoAway
    /// Flush, then close_notify and FIN.
    case close
  }

  private enum State: Sendable {
    case serving
    case waitingForGap(sinceSeconds: Int64)
    /// `isSeen`: the client has read the announcement, or does not answer.
    case announced(sinceSeconds: Int64, isSeen: Bool)
    case ending(sinceSeconds: Int64)
    case closed
  }

  private var state = State.serving
  private var lastSeconds: Int64 = 0

  package init() {}

  /// Whether the end has begun.
  package var isDraining: Bool {
    if case .serving = state { false } else { true }
  }

  /// Whether a stream that opens now is still answered. Those that come after the final GOAWAY were told to go
  /// elsewhere.
  package var acceptsStreams: Bool {
    switch state {
    case .serving, .waitingForGap, .announced: true
    case .ending, .closed: false
    }
  }

  /// The connection is to end.
  package mutating func begin(nowSeconds: Int64) {
    guard case .serving = state else { return }
    lastSeconds = nowSeconds
    state = .waitingForGap(sinceSeconds: nowSeconds)
  }

  /// The client has answered the PING.
  package mutating func announcementSeen() {
    guard case .announced(let since, _) = state else { return }
    state = .announced(sinceSeconds: since, isSeen: true)
  }

  /// To be asked before what is to be written leaves, so that the action's frame goes along.
  ///
  /// - Parameters:
  ///   - openStreams: Those whose answers are not among it.
  ///   - isWriting: Whether anything is to be written.
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

  /// Time has passed. Each wait takes at most `Limits.drainGapSeconds`, so a drain ends within three of them. Where the
  /// clock was set back the wait begins anew.
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
