import ApusCore
import Testing

@Suite("A node's own lease")
struct LeaseTests {
  /// Everything that the lease asks for at that time, up to `wait`.
  private func actions(_ lease: inout Lease, _ now: UInt64) -> [Lease.Action] {
    var actions: [Lease.Action] = []
    repeat { actions.append(lease.next(atMilliseconds: now)) } while !isWait(actions.last)
    return actions
  }

  private func isWait(_ action: Lease.Action?) -> Bool {
    if case .wait = action { true } else { false }
  }

  /// A lease whose driver was told to decide.
  private func held(sentMilliseconds: UInt64 = 10_000) -> Lease {
    var lease = Lease(sentMilliseconds: sentMilliseconds)
    _ = lease.next(atMilliseconds: sentMilliseconds)
    return lease
  }

  @Test("A new lease decides at once, and is renewed a second after it was taken")
  func begin() {
    var lease = Lease(sentMilliseconds: 10_000)
    #expect(actions(&lease, 10_020) == [.decide, .wait(untilMilliseconds: 11_000)])
    #expect(actions(&lease, 10_999) == [.wait(untilMilliseconds: 11_000)])
    #expect(actions(&lease, 11_000) == [.renew(number: 1), .wait(untilMilliseconds: 12_500)])
  }

  @Test("A renewal counts from its sending, not from its confirmation")
  func sending() {
    var lease = held()
    _ = actions(&lease, 11_000)
    lease.renewed(number: 1)
    #expect(actions(&lease, 12_400) == [.renew(number: 2), .wait(untilMilliseconds: 13_900)])
    #expect(lease.mayDecide(atMilliseconds: 15_499))
    #expect(!lease.mayDecide(atMilliseconds: 15_500))
    #expect(lease.decidesUntilMilliseconds == 15_500)
  }

  @Test("Without a renewal the node stops half a second before five seconds have passed")
  func lapse() {
    var lease = held()
    _ = actions(&lease, 11_000)
    lease.renewalFailed(number: 1, atMilliseconds: 11_100)
    #expect(actions(&lease, 11_200) == [.wait(untilMilliseconds: 11_350)])
    #expect(actions(&lease, 13_500) == [.renew(number: 2), .wait(untilMilliseconds: 14_500)])
    #expect(lease.mayDecide(atMilliseconds: 14_499))
    #expect(!lease.mayDecide(atMilliseconds: 14_500))
    #expect(actions(&lease, 14_500) == [.stopDeciding, .wait(untilMilliseconds: 15_000)])
  }

  @Test("A lease that lapsed goes on after a renewal")
  func continuation() {
    var lease = held()
    #expect(
      actions(&lease, 60_000)
        == [.stopDeciding, .renew(number: 1), .wait(untilMilliseconds: 61_500)])
    lease.renewed(number: 1)
    #expect(actions(&lease, 60_100) == [.decide, .wait(untilMilliseconds: 61_000)])
    #expect(lease.mayDecide(atMilliseconds: 64_499))
    #expect(!lease.mayDecide(atMilliseconds: 64_500))
  }

  @Test("A confirmation that comes after its time does not let the node decide")
  func lateConfirmation() {
    var lease = held()
    _ = actions(&lease, 11_000)
    lease.renewed(number: 1)
    #expect(actions(&lease, 20_000).first == .stopDeciding)
    #expect(!lease.mayDecide(atMilliseconds: 20_000))
  }

  @Test("A renewal without an answer is given up, and its late answer has no effect")
  func unanswered() {
    var lease = held()
    _ = actions(&lease, 11_000)
    #expect(actions(&lease, 12_499) == [.wait(untilMilliseconds: 12_500)])
    #expect(actions(&lease, 12_500) == [.renew(number: 2), .wait(untilMilliseconds: 14_000)])
    lease.renewed(number: 1)
    lease.renewalFailed(number: 1, atMilliseconds: 12_600)
    #expect(lease.decidesUntilMilliseconds == 14_500)
    #expect(actions(&lease, 12_700) == [.wait(untilMilliseconds: 14_000)])
    lease.renewed(number: 2)
    #expect(lease.decidesUntilMilliseconds == 17_000)
  }

  @Test("A fenced incarnation stops for good, once")
  func fenced() {
    var lease = held()
    _ = actions(&lease, 11_000)
    lease.fenced()
    #expect(!lease.mayDecide(atMilliseconds: 11_001))
    #expect(actions(&lease, 11_001) == [.shutDown, .wait(untilMilliseconds: nil)])
    lease.renewed(number: 1)
    lease.release()
    lease.fenced()
    #expect(!lease.mayDecide(atMilliseconds: 11_002))
    #expect(actions(&lease, 11_002) == [.wait(untilMilliseconds: nil)])
  }

  @Test("A node that ends stops deciding before it releases its lease, and renews no longer")
  func release() {
    var lease = held()
    lease.release()
    #expect(!lease.mayDecide(atMilliseconds: 11_000))
    #expect(
      actions(&lease, 11_000) == [.stopDeciding, .release, .wait(untilMilliseconds: nil)])
    #expect(actions(&lease, 90_000) == [.wait(untilMilliseconds: nil)])
  }

  @Test("A node that is fenced while it ends does not release its lease")
  func fencedBeforeRelease() {
    var lease = held()
    lease.release()
    #expect(lease.next(atMilliseconds: 10_500) == .stopDeciding)
    lease.fenced()
    #expect(actions(&lease, 10_500) == [.shutDown, .wait(untilMilliseconds: nil)])
  }
}
