import ApusAdmin
import ApusCore
import ApusHTTP2
import ApusLog
import ApusLoop
import ApusModel

// The limits that a provider can meet on its connection. Each is counted, and has a log line.

extension HTTP2Provider {
  private static let errorLimit = RateLimit(
    capacity: Limits.errorsPerConnection, refill: Limits.errorsPerConnectionPerSecond)

  /// "Too many errors end in disconnection, soonest for BadDeviceToken; 410 does not count."
  func count(_ reason: Reason) {
    guard reason != .unregistered else { return }
    let now = Int64(context.loop.nowMilliseconds)
    let isWithin = Self.errorLimit.take(from: &errors, atMilliseconds: now)
    let isStillWithin =
      reason != .badDeviceToken || Self.errorLimit.take(from: &errors, atMilliseconds: now)
    guard !isWithin || !isStillWithin, !isOver else { return }
    context.ended.count(.errors)
    logLimited(.notice, .providerMakesErrors)
    end(.tooManyRequests)
  }

  /// Other connections have the requests that these streams need, or this one has its most.
  func noteRefusedStreams(_ count: UInt64) {
    logLimited(.notice, .streamsRefused, .number("streams", count))
  }

  /// The session has failed; says once why.
  func noteFailure() {
    guard !hasNotedFailure else { return }
    hasNotedFailure = true
    switch session.exceededLimit {
    case .flood:
      context.ended.count(.flood)
      logLimited(.notice, .providerFloods)
    case .time:
      context.ended.count(.frameTime)
      logLimited(.info, .providerTooSlow)
    case nil:
      context.ended.count(.brokenProtocol)
      logLimited(.notice, .providerBrokeProtocol)
    }
  }

  /// The client has shown no valid credential in time.
  func endUntrusted() {
    guard !isOver else { return }
    context.ended.count(.untrustedTime)
    logLimited(.info, .untrustedTooLong)
    end(.idleTimeout)
  }

  /// A line that says who it is, as far as that is known.
  private func logLimited(_ level: Log.Level, _ kind: Log.Kind, _ field: Log.Field? = nil) {
    connection.logLimited(level, kind) {
      var fields: [Log.Field] = [.text("peer", connection.peer.description)]
      if let team = sender.team { fields.append(.text("team", team.text)) }
      if let field { fields.append(field) }
      return fields
    }
  }
}
