import ApusModel

/// How a provider's HTTP/2 connection is ended without losing a request.
///
/// Some clients tear a connection down on the first GOAWAY that they read and fail whatever is in flight. So the
/// drain waits for a moment without open streams and sends a single GOAWAY with the true last stream id. Where no such
/// moment comes it announces itself as RFC 9113, section 6.8, has it: a GOAWAY with stream id 2^31-1, answers to all
/// that is open, then the final one.
///
/// After carrying out an action the driver asks again with ``gap(openStreams:)`` until the answer is `none`.
package struct Drain: Sendable {
  package enum Action: Sendable, Hashable {
    case none
    /// Send GOAWAY with last stream id 2^31-1; go on answering, new streams too.
    case announce
    /// Send GOAWAY with the id of the last stream that is answered; refuse streams above it.
    case sendFinalGoAway
    /// Flush, then close_notify and FIN.
    case close
  }

  private enum State: Sendable {
    case serving
    case waitingForGap(sinceSeconds: Int64)
    case announced(sinceSeconds: Int64)
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

  /// The connection is to end. Ask ``gap(openStreams:)`` next: the moment may be now.
  package mutating func begin(nowSeconds: Int64) {
    guard case .serving = state else { return }
    lastSeconds = nowSeconds
    state = .waitingForGap(sinceSeconds: nowSeconds)
  }

  /// Streams were closed, or an action was carried out.
  package mutating func gap(openStreams: Int) -> Action {
    guard openStreams == 0 else { return .none }
    switch state {
    case .serving, .closed: return .none
    case .waitingForGap, .announced:
      state = .ending(sinceSeconds: lastSeconds)
      return .sendFinalGoAway
    case .ending:
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
      guard isOver(since) else {
        state = .waitingForGap(sinceSeconds: min(since, nowSeconds))
        return .none
      }
      state = .announced(sinceSeconds: nowSeconds)
      return .announce
    case .announced(let since):
      guard isOver(since) else {
        state = .announced(sinceSeconds: min(since, nowSeconds))
        return .none
      }
      state = .ending(sinceSeconds: nowSeconds)
      return .sendFinalGoAway
    case .ending(let since):
      guard isOver(since) else {
        state = .ending(sinceSeconds: min(since, nowSeconds))
        return .none
      }
      state = .closed
      return .close
    }
  }

  private func isOver(_ since: Int64) -> Bool {
    saturatingDifference(lastSeconds, since) >= Int64(Limits.drainGapSeconds)
  }
}
