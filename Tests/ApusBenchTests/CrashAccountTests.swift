import ApusModel
import Testing

@testable import apus_bench

@Suite("The account of apus-bench crash")
struct CrashAccountTests {
  private static let alone = 0
  private static let busy = 1

  private func account() -> CrashAccount {
    var account = CrashAccount(aloneDevices: 0..<1)
    account.life = 1
    return account
  }

  /// Sends a notification that is to be stored, and that is accepted at once.
  private func accept(
    _ account: inout CrashAccount, for device: Int = busy, on stream: Int? = nil
  ) -> Int {
    let number = account.send(to: device, on: stream, isStored: true)
    account.end(number, .accepted)
    return number
  }

  private func arrive(
    _ account: inout CrashAccount, _ number: Int, at device: Int = busy, messageID: UInt32 = 7,
    connection: Int = 1, connectedLife: Int = 1, isTaken: Bool = true
  ) {
    account.arrive(
      number, at: device, messageID: messageID, id: nil, connection: connection,
      connectedLife: connectedLife, isTaken: isTaken)
  }

  @Test("An accepted notification that never arrived is lost")
  func lost() {
    var account = account()
    let first = accept(&account, for: Self.alone)
    let second = accept(&account)
    arrive(&account, second)
    account.close()
    #expect(account.violations == [.lost(first)])
    #expect(account.totals.lost == 1)
    #expect(account.totals.delivered == 1)
  }

  @Test("An unanswered, a rejected and an unstored notification need not arrive")
  func mayStayAway() {
    var account = account()
    account.end(account.send(to: Self.alone, isStored: true), .unknown)
    account.end(account.send(to: Self.alone, isStored: true), .refused)
    account.end(account.send(to: Self.alone, isStored: false), .accepted)
    account.close()
    #expect(account.violations.isEmpty)
    #expect(account.totals.notStored == 1)
  }

  @Test("A newer notification that arrived counts as a replacement, an older one does not")
  func replaced() {
    var account = account()
    let older = accept(&account)
    let middle = accept(&account)
    let newer = accept(&account)
    arrive(&account, middle)
    account.close()
    #expect(account.violations == [.lost(newer)])
    #expect(account.totals.replaced == 1)
    #expect(!account.awaited.contains(middle) && account.awaited.contains(older))
  }

  @Test("A notification that arrived before the missing one was sent cannot have replaced it")
  func cameBefore() {
    var account = account()
    let unanswered = account.send(to: Self.busy, isStored: true)
    arrive(&account, unanswered)
    let missing = accept(&account)
    account.close()
    #expect(account.violations == [.lost(missing)])
  }

  @Test("Two pending notifications may replace each other, unless on one stream")
  func concurrent() {
    for (streams, isLost) in [((1, 2), false), ((1, 1), true)] {
      var account = account()
      let first = account.send(to: Self.busy, on: streams.0, isStored: true)
      let second = account.send(to: Self.busy, on: streams.1, isStored: true)
      account.end(first, .accepted)
      account.end(second, .accepted)
      arrive(&account, first)
      account.close()
      #expect(account.violations == (isLost ? [.lost(second)] : []))
    }
  }

  @Test("Nothing replaces a device's only notification")
  func alone() {
    var account = account()
    let first = accept(&account, for: Self.alone)
    arrive(&account, accept(&account, for: Self.alone), at: Self.alone)
    account.close()
    #expect(account.violations == [.lost(first)])
  }

  @Test(
    "The same ids on another connection are a redelivery; other ids, or the same connection, are not"
  )
  func again() {
    var account = account()
    let number = accept(&account)
    arrive(&account, number)
    arrive(&account, number, connection: 2)
    #expect(account.violations.isEmpty)
    #expect(account.totals.redelivered == 1)
    arrive(&account, number, connection: 2)
    arrive(&account, number, messageID: 8, connection: 3)
    #expect(account.violations == [.twiceOnOneConnection(number), .idChanged(number)])
  }

  @Test("A declined notification must arrive again")
  func noRoom() {
    var account = account()
    let once = accept(&account)
    arrive(&account, once, isTaken: false)
    #expect(account.missing() == [once])
    arrive(&account, once, connection: 2)
    #expect(account.missing() == [])
    #expect(account.totals.redelivered == 1)
  }

  @Test("A notification keeps the apns-id of its provider")
  func ownID() {
    var account = account()
    let number = account.send(
      to: Self.busy, isStored: true, id: NotificationID(high: 1, low: 2))
    arrive(&account, number)
    #expect(account.violations == [.idChanged(number)])
  }

  @Test("Rejected, misdirected and unknown notifications must not arrive")
  func mustNotArrive() {
    var account = account()
    let refused = account.send(to: Self.busy, isStored: true)
    account.end(refused, .refused)
    arrive(&account, refused)
    let other = accept(&account)
    arrive(&account, other, at: Self.alone)
    arrive(&account, 99)
    #expect(
      account.violations == [
        .refusedYetSeen(refused), .otherDevice(other, seenBy: Self.alone),
        .damaged(device: Self.busy),
      ])
  }

  @Test("A rejection after the notification has arrived is detected too")
  func refusedLater() {
    var account = account()
    let number = account.send(to: Self.busy, isStored: true)
    arrive(&account, number)
    account.end(number, .refused)
    #expect(account.violations == [.refusedYetSeen(number)])
  }

  @Test("A notification that must not be stored arrives in the same life or not at all")
  func notStored() {
    var account = account()
    let early = account.send(to: Self.busy, isStored: false)
    account.end(early, .accepted)
    let late = account.send(to: Self.busy, isStored: false)
    account.end(late, .accepted)
    arrive(&account, early)
    account.life = 2
    arrive(&account, late, connection: 2, connectedLife: 2)
    #expect(account.violations == [.seenAfterRestart(late, life: 2)])
  }

  @Test("If an app retains two, one newer notification does not explain a missing one")
  func retention() {
    var account = CrashAccount(aloneDevices: 0..<1, retention: 2)
    let first = accept(&account)
    arrive(&account, accept(&account))
    #expect(account.missing() == [first])
    arrive(&account, accept(&account))
    #expect(account.missing() == [])
  }

  private static let topic = TopicCounters(
    topic: TopicKey(app: AppID(1)), environment: .production)

  private func counters(accepted: UInt64, discarded: UInt64) -> [TopicCounters] {
    var counters = Self.topic
    for (state, number) in [
      (DeliveryState.received, accepted), (.discardedNotStored, discarded),
      (.delivered, accepted - discarded),
    ] {
      counters.cells[TopicCounters.cell(state, pushType: nil, priority: .immediate)] = number
    }
    return [counters]
  }

  private func accept(
    _ account: inout CrashAccount, _ low: UInt64, isTaken: Bool, isStored: Bool = true
  ) -> NotificationID {
    let id = NotificationID(high: 1, low: low)
    let number = account.send(to: Self.busy, isStored: isStored, id: id)
    account.end(number, .accepted)
    if isTaken { account.take(number) }
    return id
  }

  @Test("Every accepted notification to be stored has a final state in the ledger, by id")
  func finalState() {
    var account = account()
    let ended = accept(&account, 0, isTaken: false)
    _ = accept(&account, 1, isTaken: true)
    _ = accept(&account, 2, isTaken: false)
    account.compare(
      CrashAccount.Ends(ids: [ended]), counters: counters(accepted: 3, discarded: 0))
    #expect(account.violations == [.withoutFinalState(1), .withoutFinalState(2)])
    #expect(account.totals.withoutFinalState == 2)
  }

  @Test("A notification with expiration 0 has a final state in the ledger, or counts as discarded")
  func discarded() {
    for (recorded, counted, isMissing) in [(1, 1, true), (1, 2, true), (1, 3, false)] {
      var account = account()
      var ends = CrashAccount.Ends()
      ends.ids = [accept(&account, 0, isTaken: false, isStored: false)]
      ends.discarded = UInt64(recorded)
      _ = accept(&account, 1, isTaken: true, isStored: false)
      _ = accept(&account, 2, isTaken: false, isStored: false)
      account.compare(ends, counters: counters(accepted: 3, discarded: UInt64(counted)))
      #expect(account.violations == (isMissing ? [.unaccounted(1), .unaccounted(2)] : []))
      #expect(account.totals.unaccounted == (isMissing ? 2 : 0))
    }
  }

  @Test("The counters have at least as many accepted notifications as were answered")
  func uncounted() {
    var account = account()
    for _ in 0..<3 { account.end(account.send(to: Self.busy, isStored: false), .accepted) }
    account.compare(CrashAccount.Ends(), counters: counters(accepted: 3, discarded: 3))
    #expect(account.violations.isEmpty)
    account.compare(CrashAccount.Ends(), counters: counters(accepted: 1, discarded: 1))
    #expect(account.violations == [.uncounted(2)])
  }

  @Test("Only an intact payload gives its number")
  func payload() {
    for number in [0, 9, 10, 12_345, 4_000_000_000] {
      var bytes = CrashPayload.bytes(number)
      #expect(CrashPayload.number(in: bytes.span) == number)
      bytes[bytes.count / 2] ^= 1
      #expect(CrashPayload.number(in: bytes.span) == nil)
      let short = Array(CrashPayload.bytes(number).dropLast())
      #expect(CrashPayload.number(in: short.span) == nil)
    }
  }
}
