import ApusModel

/// A node's own lease: decides when to renew it, and whether the node may still decide about devices.
///
/// The lease is a row with the node's incarnation and a counter. A renewal increments the counter unless the row is
/// fenced, in one statement, so that a renewal and a fence of the row take effect one after the other. Another node may
/// fence an incarnation once it has seen its counter unchanged for `Limits.leaseMilliseconds`. The holder stops
/// earlier, by `Limits.leaseMarginMilliseconds`, and counts from the moment at which it *sent* its last confirmed
/// renewal: others may have seen the counter change at any time since then. A lease that lapsed goes on if a renewal
/// is confirmed: then nobody has fenced it.
///
/// The driver calls ``next(atMilliseconds:)`` until it returns `wait`. Times are those of a clock that goes on while
/// the machine is suspended (`CLOCK_BOOTTIME`).
package struct Lease: Sendable, Hashable {
  package enum Action: Sendable, Hashable {
    /// Send a renewal. Close the connection of an earlier one that has no answer yet.
    case renew(number: UInt64)
    /// Issue no verdict until `decide`: no stored notification is accepted, no token is called dead. What a device has
    /// acknowledged is still answered.
    case stopDeciding
    case decide
    /// Mark the lease as released, and fence its lanes: all outcomes are known, and others may take over at once.
    case release
    /// End the process: this incarnation is fenced.
    case shutDown
    /// Nothing before that time; nil: before something happens.
    case wait(untilMilliseconds: UInt64?)
  }

  private enum Phase: Sendable {
    case held, releasing, fenced
    /// The driver knows of the end.
    case over
  }

  /// A renewal without an answer.
  private struct Renewal: Sendable, Hashable {
    let number: UInt64
    let sentMilliseconds: UInt64
  }

  private var phase = Phase.held
  /// When the last confirmed renewal was sent.
  private var renewedMilliseconds: UInt64
  private var dueMilliseconds: UInt64
  private var open: Renewal?
  private var lastNumber: UInt64 = 0
  /// As the driver was told.
  private var isDeciding = false

  /// - Parameter sentMilliseconds: When the statement was sent that took the lease for this incarnation.
  package init(sentMilliseconds: UInt64) {
    renewedMilliseconds = sentMilliseconds
    dueMilliseconds = sentMilliseconds + Limits.leaseRenewalMilliseconds
  }

  /// The node issues verdicts of its own before that time; 0 if it issues none. Threads without the lease compare it
  /// with the clock.
  package var decidesUntilMilliseconds: UInt64 {
    phase == .held
      ? renewedMilliseconds + Limits.leaseMilliseconds - Limits.leaseMarginMilliseconds : 0
  }

  /// Whether the node may issue a verdict of its own at that time.
  package func mayDecide(atMilliseconds now: UInt64) -> Bool { now < decidesUntilMilliseconds }

  // MARK: What happened

  /// The database has confirmed the renewal. Without effect for one that was given up.
  package mutating func renewed(number: UInt64) {
    guard let renewal = open, renewal.number == number else { return }
    open = nil
    renewedMilliseconds = renewal.sentMilliseconds
    dueMilliseconds = renewal.sentMilliseconds + Limits.leaseRenewalMilliseconds
  }

  /// The renewal has failed, or its outcome is unknown. It may still take effect.
  package mutating func renewalFailed(number: UInt64, atMilliseconds now: UInt64) {
    guard open?.number == number else { return }
    open = nil
    dueMilliseconds = now + Limits.clusterRetryMilliseconds
  }

  /// The lease or a lane is fenced, or belongs to a later incarnation.
  package mutating func fenced() {
    if phase != .over { phase = .fenced }
  }

  /// The node ends, and has handed over what it could.
  package mutating func release() {
    if phase == .held { phase = .releasing }
  }

  // MARK: What to do

  /// What to do next.
  package mutating func next(atMilliseconds now: UInt64) -> Action {
    switch phase {
    case .over: return .wait(untilMilliseconds: nil)
    case .fenced:
      (phase, isDeciding) = (.over, false)
      return .shutDown
    case .held, .releasing: break
    }
    if mayDecide(atMilliseconds: now) != isDeciding {
      isDeciding.toggle()
      return isDeciding ? .decide : .stopDeciding
    }
    if phase == .releasing {
      phase = .over
      return .release
    }
    guard now >= nextRenewalMilliseconds else {
      let end = isDeciding ? decidesUntilMilliseconds : .max
      return .wait(untilMilliseconds: min(nextRenewalMilliseconds, end))
    }
    lastNumber += 1
    open = Renewal(number: lastNumber, sentMilliseconds: now)
    return .renew(number: lastNumber)
  }

  private var nextRenewalMilliseconds: UInt64 {
    open.map { $0.sentMilliseconds + Limits.leaseAnswerMilliseconds } ?? dueMilliseconds
  }
}
