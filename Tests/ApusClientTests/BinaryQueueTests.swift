import ApusModel
import ApusWire
import Testing

@testable import ApusClient

/// What packets, silence and ends of connections prove, case by case.
@Suite("The queue of sent notifications on the binary interface")
struct BinaryQueueTests {
  /// Ten notifications, tickets 0 to 9: our system has the first eight, the peer's has the first six, and the last two
  /// were not written.
  private func queue(
    silence: UInt64? = 1000, command: BinaryCommand = .framed, frames: Int = 100,
    identifierLimit: Int = 1000
  ) -> SentQueueBench {
    let queue = SentQueueBench(
      SentQueue(
        format: FrameFormat(command: command),
        window: .init(frames: frames, bytes: 65_536, silenceMilliseconds: silence),
        identifierLimit: identifierLimit))
    for ticket in 0..<8 { #expect(queue.append(Self.frame(command), ticket: UInt64(ticket))) }
    queue.value.connectionBegan()
    while queue.takeRecord(limit: 1) != nil {}
    queue.value.handedOver(through: 8)
    queue.value.reached(through: 6, nowMilliseconds: 0)
    for ticket in 8..<10 { #expect(queue.append(Self.frame(command), ticket: UInt64(ticket))) }
    return queue
  }

  private static func frame(_ command: BinaryCommand) -> [UInt8] {
    var frame: [UInt8] = []
    let (token, payload): ([UInt8], [UInt8]) = ([1, 2], [3])
    switch command {
    case .simple: frame.append(simple: token.span, payload: payload.span)
    case .enhanced:
      frame.append(enhanced: token.span, payload: payload.span, identifier: 0, expiration: 0)
    case .framed:
      frame.append(
        framed: token.span, payload: payload.span, identifier: 0, expiration: 0, priority: 10)
    }
    return frame
  }

  /// The outcomes of tickets 0 to 9: a(ccepted), r(ejected), u(nknown), n(ot sent and unknown), b(elied), l(ost), and a
  /// full stop for none.
  private func text(_ settled: [SentQueue.Settled]) -> String {
    var letters = [Character](repeating: ".", count: 10)
    for one in settled {
      let place = Int(one.ticket)
      let letter: Character =
        switch one.settlement {
        case .accepted: "a"
        case .rejected: "r"
        case .unknown(_, mayBeTaken: true): "u"
        case .unknown(_, mayBeTaken: false): "n"
        case .rejectedLate: "b"
        case .lost: "l"
        }
      #expect(letters[place] == "." || "bl".contains(letter), "ticket \(place) has one outcome")
      letters[place] = letter
    }
    return String(letters)
  }

  /// The tickets written to the next connection, by frame number.
  private func written(_ queue: SentQueueBench) -> Int {
    queue.value.connectionBegan()
    var count = 0
    while queue.takeRecord(limit: 1) != nil { count += 1 }
    return count
  }

  @Test(
    "An error packet accepts earlier notifications, and later ones are resent",
    arguments: [
      ([8, 8, 0, 0, 0, 1], "r.........", 9), ([8, 8, 0, 0, 0, 4], "aaar......", 6),
      ([8, 7, 0, 0, 0, 8], "aaaaaaar..", 2), ([8, 255, 0, 0, 0, 5], "aaaar.....", 5),
      ([8, 99, 0, 0, 0, 5], "aaaar.....", 5),
    ] as [([UInt8], String, Int)])
  func errors(bytes: [UInt8], outcomes: String, again: Int) {
    let queue = queue()
    let verdict = queue.received(bytes)
    #expect(verdict == .ended)
    let settled = queue.takeSettled()
    #expect(text(settled) == outcomes)
    #expect(settled.last?.settlement == .rejected(bytes[1]))
    #expect(queue.value.frames.openCount == again)
    #expect(written(queue) == again)
  }

  @Test(
    "Status 10 names the last accepted notification",
    arguments: [
      (1, "a.........", 9), (4, "aaaa......", 6), (8, "aaaaaaaa..", 2), (0, "..........", 10),
    ] as [(UInt8, String, Int)])
  func shutdown(number: UInt8, outcomes: String, again: Int) {
    let queue = queue()
    #expect(queue.received([8, 10, 0, 0, 0, number]) == .ended)
    #expect(text(queue.takeSettled()) == outcomes)
    #expect(written(queue) == again)
  }

  @Test(
    "After a packet about an unknown notification, the outcome of written ones is unknown",
    arguments: [
      [8, 8, 0, 0, 0, 0], [8, 8, 0, 0, 0, 9], [8, 10, 0, 0, 0, 10], [8, 1, 255, 255, 255, 255],
      [8, 128, 0, 0, 0, 0],
    ] as [[UInt8]])
  func unknownIdentifier(bytes: [UInt8]) {
    let queue = queue()
    #expect(queue.received(bytes) == .notUnderstood)
    let settled = queue.takeSettled()
    #expect(text(settled) == "uuuuuuuu..")
    #expect(settled.first?.settlement == .unknown(.answerNotUnderstood, mayBeTaken: true))
    #expect(written(queue) == 2)
  }

  @Test("Number 0 with status 10 proves nothing if something was accepted before")
  func shutdownAfterAll() {
    let queue = queue()
    queue.value.confirmSilent(nowMilliseconds: 1000)
    _ = queue.takeSettled()
    #expect(queue.received([8, 10, 0, 0, 0, 0]) == .notUnderstood)
    #expect(text(queue.takeSettled()) == "lllllluu..")
  }

  @Test("No packet can name a notification of command 0")
  func simple() {
    let queue = queue(command: .simple)
    #expect(queue.received([8, 8, 0, 0, 0, 1]) == .notUnderstood)
    #expect(text(queue.takeSettled()) == "uuuuuuuu..")
    let other = self.queue(command: .simple)
    #expect(other.received([8, 10, 0, 0, 0, 0]) == .notUnderstood)
    #expect(text(other.takeSettled()) == "uuuuuuuu..")
  }

  @Test("A confirmation accepts all notifications up to the named one, once")
  func confirmations() {
    let queue = queue(silence: nil)
    #expect(queue.received([8, 0, 0, 0, 0, 2]) == .goOn)
    #expect(queue.received([8, 0, 0, 0, 0, 2]) == .goOn)
    #expect(text(queue.takeSettled()) == "aa........")
    #expect(queue.received([8, 0, 0, 0, 0, 1]) == .goOn)
    #expect(queue.received([8, 0, 0, 0, 0, 9]) == .goOn)
    #expect(queue.received([8, 0, 0, 0, 0, 0]) == .goOn)
    #expect(queue.takeSettled().isEmpty)
    // If confirmations are expected, silence proves nothing.
    queue.value.confirmSilent(nowMilliseconds: 1_000_000)
    #expect(queue.takeSettled().isEmpty)
    #expect(queue.received([8, 0, 0, 0, 0, 8]) == .goOn)
    #expect(text(queue.takeSettled()) == "..aaaaaa..")
  }

  @Test("Silence accepts exactly what the peer's system has had for the whole time")
  func silence() {
    let queue = queue()
    queue.value.confirmSilent(nowMilliseconds: 999)
    #expect(queue.takeSettled().isEmpty)
    queue.value.reached(through: 8, nowMilliseconds: 500)
    queue.value.confirmSilent(nowMilliseconds: 1000)
    #expect(text(queue.takeSettled()) == "aaaaaa....")
    queue.value.confirmSilent(nowMilliseconds: 1500)
    #expect(text(queue.takeSettled()) == "......aa..")
  }

  @Test("After a lost connection, written notifications are unknown, and the rest is kept")
  func lost() {
    let queue = queue()
    queue.value.connectionLost()
    #expect(text(queue.takeSettled()) == "uuuuuuuu..")
    queue.value.confirmSilent(nowMilliseconds: 1_000_000)
    #expect(queue.takeSettled().isEmpty)
    #expect(written(queue) == 2)
  }

  @Test("A service that refuses the certificate has read nothing")
  func unread() {
    let queue = queue()
    queue.value.connectionLost(isUnread: true)
    #expect(queue.takeSettled().isEmpty)
    #expect(written(queue) == 10)
  }

  // MARK: Packets after the silence

  @Test("What a late packet proves unread is resent, and reported only if that fails")
  func late() {
    let queue = queue()
    queue.value.confirmSilent(nowMilliseconds: 1000)
    #expect(text(queue.takeSettled()) == "aaaaaa....")
    #expect(queue.received([8, 8, 0, 0, 0, 3]) == .ended)
    let late = queue.takeSettled()
    #expect(late.map(\.ticket) == [2])
    #expect(late.map(\.settlement) == [.rejectedLate(8)])
    #expect(queue.value.frames.openCount == 4)
    #expect(queue.value.frames.againCount == 3)
    #expect(written(queue) == 7)
    queue.value.handedOver(through: 10)
    queue.value.reached(through: 10, nowMilliseconds: 2000)
    queue.value.confirmSilent(nowMilliseconds: 3000)
    #expect(text(queue.takeSettled()) == "......aaaa")
    #expect(queue.value.pendingCount == 0)
    #expect(queue.value.forgottenCount == 0)
  }

  @Test("A notification that is resent after a late packet and then lost is reported")
  func lateAndLost() {
    let queue = queue()
    queue.value.confirmSilent(nowMilliseconds: 1000)
    _ = queue.takeSettled()
    #expect(queue.received([8, 10, 0, 0, 0, 3]) == .ended)
    #expect(queue.takeSettled().isEmpty)
    #expect(written(queue) == 7)
    queue.value.handedOver(through: 5)
    queue.value.connectionLost()
    #expect(text(queue.takeSettled()) == "...ll.....")
    #expect(queue.value.frames.againCount == 1)
  }

  @Test("Notifications dropped before a late packet came are counted")
  func lateAndForgotten() {
    let queue = SentQueueBench(
      SentQueue(
        format: FrameFormat(command: .framed),
        window: .init(frames: 16, bytes: 65_536, silenceMilliseconds: 10)))
    queue.value.connectionBegan()
    for ticket in 0..<200 {
      #expect(queue.append(Self.frame(.framed), ticket: UInt64(ticket)))
      _ = queue.takeRecord(limit: 1)
      queue.value.reached(through: ticket + 1, nowMilliseconds: UInt64(ticket * 20))
      queue.value.confirmSilent(nowMilliseconds: UInt64(ticket * 20 + 10))
    }
    #expect(queue.takeSettled().count == 200)
    #expect(queue.value.frames.capacity < 200)
    #expect(queue.received([8, 8, 0, 0, 0, 1]) == .ended)
    // The first was rejected, and some of the following were lost with it; the others were kept and are resent.
    #expect(queue.value.forgottenCount + queue.value.frames.againCount == 200)
    #expect(queue.value.frames.againCount >= 32)
    #expect(queue.takeSettled().isEmpty)
  }

  // MARK: Time and cancelling

  @Test("Overdue notifications end, and are not sent afterwards")
  func overdue() {
    let queue = queue()
    for (ticket, deadline) in [(10, 100), (11, 200)] {
      #expect(
        queue.append(
          Self.frame(.framed), ticket: UInt64(ticket), deadlineMilliseconds: UInt64(deadline)))
    }
    // The earlier ones have time left, and deadlines are in order.
    queue.value.expire(nowMilliseconds: 150)
    #expect(queue.takeSettled().isEmpty)
    queue.value.connectionLost()
    _ = queue.takeSettled()
    queue.value.cancel(8)
    queue.value.cancel(9)
    #expect(text(queue.takeSettled()) == "........nn")
    queue.value.expire(nowMilliseconds: 150)
    #expect(queue.takeSettled().map(\.settlement) == [.unknown(.timedOut, mayBeTaken: false)])
    #expect(written(queue) == 1)
    queue.value.handedOver(through: 12)
    queue.value.expire(nowMilliseconds: 200)
    #expect(queue.takeSettled().map(\.settlement) == [.unknown(.timedOut, mayBeTaken: true)])
    #expect(queue.value.pendingCount == 0)
  }

  @Test("A cancelled notification is never resent, whatever a packet proves")
  func cancelled() {
    let queue = queue()
    queue.value.cancel(6)
    queue.value.cancel(9)
    #expect(text(queue.takeSettled()) == "......u..n")
    #expect(queue.received([8, 8, 0, 0, 0, 2]) == .ended)
    #expect(text(queue.takeSettled()) == "ar........")
    #expect(written(queue) == 6)
  }

  // MARK: The probe

  @Test("The probe's packet accepts everything; after an earlier packet the probe is resent")
  func probe() {
    let queue = queue()
    let isAppended = queue.value.appendProbe()
    #expect(isAppended)
    #expect(queue.value.endsInProbe)
    while queue.takeRecord(limit: 1) != nil {}
    queue.value.handedOver(through: 11)
    let other = queue.copy()
    #expect(queue.received([8, 2, 0, 0, 0, 11]) == .proven)
    #expect(text(queue.takeSettled()) == "aaaaaaaaaa")
    #expect(queue.value.pendingCount == 0)
    #expect(other.received([8, 8, 0, 0, 0, 10]) == .ended)
    #expect(text(other.takeSettled()) == "aaaaaaaaar")
    #expect(other.value.pendingCount == 0)
  }

  @Test("A probe belongs to the connection that it was sent on", arguments: [true, false])
  func staleProbe(isWritten: Bool) {
    let queue = queue()
    let isAppended = queue.value.appendProbe()
    #expect(isAppended)
    if isWritten {
      while queue.takeRecord(limit: 1) != nil {}
      queue.value.handedOver(through: 11)
    }
    let other = queue.copy()
    #expect(queue.received([8, 8, 0, 0, 0, 3]) == .ended)
    let (left, hasProbe) = (queue.value.unwrittenCount, queue.value.endsInProbe)
    #expect(left == 7 && !hasProbe)
    // Everything with the system may have been read, including the probe.
    other.value.connectionLost()
    let (leftToOther, otherHasProbe) = (other.value.unwrittenCount, other.value.endsInProbe)
    #expect(leftToOther == (isWritten ? 0 : 2) && !otherHasProbe)
  }

  // MARK: Bounds

  @Test("A full window takes nothing more until something is settled")
  func full() {
    let queue = queue(frames: 10)
    #expect(!queue.append(Self.frame(.framed), ticket: 10))
    #expect(queue.received([8, 0, 0, 0, 0, 1]) == .goOn)
    #expect(queue.append(Self.frame(.framed), ticket: 10))
    #expect(!queue.append(Self.frame(.framed), ticket: 11))
  }

  @Test("A connection without free numbers takes nothing more, and the next one continues")
  func numbers() {
    let queue = queue(identifierLimit: 9)
    #expect(queue.takeRecord(limit: 1) != nil)
    #expect(queue.value.needsNewConnection)
    #expect(queue.takeRecord(limit: 1) == nil)
    #expect(!queue.value.wantsWrite)
    queue.value.handedOver(through: 9)
    queue.value.connectionLost()
    #expect(written(queue) == 1)
  }
}
