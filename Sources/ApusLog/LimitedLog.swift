import ApusModel
import Synchronization

// Rate limits for lines with which an untrusted peer or a repeating failure could fill the log.

extension Log {
  /// Lines that share one limit. A new limited line needs a case and its text here.
  package enum Kind: Int, Sendable, CaseIterable {
    case tlsFailed
    case handshakeTimedOut
    case handshakeMadeRoom
    case connectionRefused
    case proxyUnknown
    case proxyHeaderRefused
    case descriptorsUsedUp
    case untrustedTooLong
    case peerDoesNotRead
    case providerRefused
    case providerClosed
    case providerBrokeProtocol
    case providerMakesErrors
    case teamHasTooManyConnections
    case providerFloods
    case providerTooSlow
    case streamsRefused
    case deviceWithoutCertificate
    case deviceRefused
    case deviceBrokeProtocol
    case deviceConnectionEnds
    case secondConnect
    case tooManyTakeovers
    case enrolmentWaits
    case certificateRefused
    case groupRefused
    case feedbackUnreadable
    case journalFull
    case auditNotWritten
    case jobNotWritten
    case memoryScarce
    case memorySufficient
    case noncesNotKept
    case deviceRecordUnreadable
    case mailboxUnreadable
    case notificationUnreadable
    case upstreamUnreachable
    case linkFailed
    case channelNotWritten
    case upstreamRejectsCredential

    package var event: StaticString {
      switch self {
      case .tlsFailed: "tls failed"
      case .handshakeTimedOut: "handshake timed out"
      case .handshakeMadeRoom: "half-open handshake ended to make room"
      case .connectionRefused: "connection refused"
      case .proxyUnknown: "connection refused, not from a proxy"
      case .proxyHeaderRefused: "connection refused, its proxy does not name the client"
      case .descriptorsUsedUp: "connections refused, no descriptor is free"
      case .untrustedTooLong: "provider without credential ended"
      case .peerDoesNotRead: "peer does not read"
      case .providerRefused: "provider refused"
      case .providerClosed: "provider closed"
      case .providerBrokeProtocol: "provider ended by a protocol error"
      case .providerMakesErrors: "provider ended after too many errors"
      case .teamHasTooManyConnections: "team has too many connections"
      case .providerFloods: "provider ended for too many frames"
      case .providerTooSlow: "provider ended for being too slow"
      case .streamsRefused: "streams refused"
      case .deviceWithoutCertificate: "device without certificate"
      case .deviceRefused: "device refused"
      case .deviceBrokeProtocol: "device broke the protocol"
      case .deviceConnectionEnds: "device connection ends"
      case .secondConnect: "second connect"
      case .tooManyTakeovers: "too many takeovers"
      case .enrolmentWaits: "enrolment waits for approval"
      case .certificateRefused: "certificate refused"
      case .groupRefused: "store refused a group"
      case .feedbackUnreadable: "feedback list unreadable"
      case .journalFull: "ledger journal full: a crash would lose lines of the ledger"
      case .auditNotWritten: "audit line not written"
      case .jobNotWritten: "progress of a job not written"
      case .memoryScarce: "memory for notifications is nearly used up: providers are slowed down"
      case .memorySufficient: "memory for notifications is sufficient again"
      case .noncesNotKept: "used nonces not saved for a restart"
      case .deviceRecordUnreadable: "device record unreadable"
      case .mailboxUnreadable: "mailbox unreadable"
      case .notificationUnreadable: "stored notification unreadable"
      case .upstreamUnreachable: "upstream unreachable"
      case .linkFailed: "link to another node failed"
      case .channelNotWritten: "what happened to a channel is not written yet"
      case .upstreamRejectsCredential: "upstream rejects the credential of this service"
      }
    }
  }

  /// What all copies of a log have written recently.
  final class LimitedLines: Sendable {
    fileprivate let limiter = Mutex(LogLimiter(kinds: Kind.allCases.count))
  }

  /// Writes one line unless its kind has reached its limit in this window (`Limits.logLinesPerWindow`).
  ///
  /// - Parameters:
  ///   - now: Time of the loops' monotonic clock.
  ///   - fields: Evaluated only when the line is written.
  package func limited(
    _ level: Level, _ kind: Kind, atMilliseconds now: UInt64, _ fields: () -> [Field]
  ) {
    guard writes(level) else { return }
    let verdict = limitedLines.limiter.withLock {
      $0.admit(kind.rawValue, atMilliseconds: now)
    }
    guard case .write(let suppressedBefore) = verdict else { return }
    if suppressedBefore > 0 { tellSuppressed(kind, suppressedBefore) }
    write(level, kind.event, fields())
  }

  /// Reports suppressed lines whose window is over. Call it every second.
  package func tellSuppressed(atMilliseconds now: UInt64) {
    let taken = limitedLines.limiter.withLock { $0.takeSuppressed(atMilliseconds: now) }
    for suppressed in taken {
      guard let kind = Kind(rawValue: suppressed.kind) else { continue }
      tellSuppressed(kind, suppressed.lineCount)
    }
  }

  private func tellSuppressed(_ kind: Kind, _ count: Int) {
    self(
      .notice, "lines suppressed", .text("kind", kind.event.description),
      .number("more_suppressed", count))
  }

  /// The number of suppressed lines of each kind since the start, for metrics.
  package func suppressedTotals() -> [(kind: Kind, lines: UInt64)] {
    limitedLines.limiter.withLock { limiter in
      Kind.allCases.map { ($0, limiter.suppressedTotal($0.rawValue)) }
    }
  }
}
