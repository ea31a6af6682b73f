import ApusCore
import ApusModel
import ApusRelay
import ApusServer
import ApusStore
import ApusTLS
import ApusTesting
import Testing

@Suite(
  "What upstream rejects later is reported to legacy senders, and what they send again is recognised"
)
struct LateRefusalTests {
  private let bench: RelayBench
  private let identity: TLSIdentity
  private static let good = PlannedFault.Effect.respond(.init(status: 200, reason: ""))
  private static let bad = PlannedFault.Effect.respond(
    .init(status: 400, reason: "BadDeviceToken"))

  init() throws {
    bench = try RelayBench()
    identity = try bench.gateway.directory.providerIdentity()
  }

  private func token(_ number: Int) -> (bytes: [UInt8], text: String) {
    LegacyFrame.token(UInt8(0x10 + number))
  }

  private func frame(_ number: Int) -> [UInt8] {
    LegacyFrame.framed(
      UInt32(number), token(number).bytes, LegacyFrame.payload("number \(number)"))
  }

  /// Lets upstream accept these, but reject one after the others have come.
  private func script(
    _ numbers: ClosedRange<Int>, bad: Int, _ effect: PlannedFault.Effect = bad,
    afterMilliseconds delay: UInt64 = 300
  ) {
    for number in numbers {
      bench.script.answer(
        token(number).text,
        number == bad ? .delay(milliseconds: delay, then: effect) : Self.good)
    }
  }

  private func counts(_ numbers: ClosedRange<Int>) -> [Int] {
    numbers.map { bench.script.requests(token($0).text).count }
  }

  private func packet(_ status: UInt8, _ identifier: UInt32) -> [UInt8] {
    [8, status] + bigEndian(identifier)
  }

  // MARK: Reports

  @Test(
    "Status and identifier are reported, and the connection ends",
    arguments: [
      (400, "BadDeviceToken", 8), (400, "DeviceTokenNotForTopic", 8), (413, "PayloadTooLarge", 7),
      (400, "BadExpirationDate", 1),
    ] as [(UInt16, String, UInt8)])
  func reported(status: UInt16, reason: String, expected: UInt8) throws {
    script(1...4, bad: 2, .respond(.init(status: status, reason: reason)))
    let sender = try bench.sender(identity)
    try sender.send(frame(1), frame(2), frame(3), frame(4))
    #expect(try sender.end().bytes == packet(expected, 2))
    try bench.drain()
    #expect(counts(1...4) == [1, 1, 1, 1])
    #expect(try bench.gateway.feedback().isEmpty)
  }

  @Test("Command 0 gets no packet: its connection ends, and the token is in the feedback list")
  func silent() throws {
    script(1...2, bad: 1)
    let sender = try bench.sender(identity)
    try sender.send(LegacyFrame.simple(token(1).bytes), frame(2))
    #expect(try sender.end().bytes == [])
    #expect(try bench.feedback(count: 1).map(\.token) == [token(1).bytes])
  }

  @Test("If the sender has gone, a bad token is in the feedback list")
  func gone() throws {
    script(1...2, bad: 2, afterMilliseconds: 1000)
    let sender = try bench.sender(identity)
    try sender.send(frame(1), frame(2))
    try waitFor { counts(1...2) == [1, 1] }
    sender.tls.close()
    #expect(try bench.feedback(count: 1).map(\.token) == [token(2).bytes])
    try bench.drain()
  }

  // MARK: Resends

  @Test("What was behind the rejected one is sent again by its sender, and upstream gets it once")
  func resent() throws {
    script(1...5, bad: 2)
    let sender = try bench.sender(identity)
    try sender.send(frame(1), frame(2), frame(3), frame(4))
    #expect(try sender.end().bytes == packet(8, 2))
    let next = try bench.sender(confirms: true, identity)
    try next.send(frame(3), frame(4), frame(5))
    for identifier: UInt32 in 3...5 { #expect(try next.packet() == packet(0, identifier)) }
    try bench.drain()
    #expect(counts(1...5) == [1, 1, 1, 1, 1])
    // Once: the same again is another notification.
    try bench.accept(frame(3), identity)
    try bench.drain()
    #expect(counts(3...3) == [2])
  }

  @Test("Also after a restart")
  func restarted() throws {
    script(1...4, bad: 1)
    let sender = try bench.sender(identity)
    try sender.send(frame(1), frame(2), frame(3), frame(4))
    #expect(try sender.end().bytes == packet(8, 1))
    try bench.drain()
    try bench.restart()
    let next = try bench.sender(confirms: true, identity)
    try next.send(frame(2), frame(3), frame(4))
    for identifier: UInt32 in 2...4 { #expect(try next.packet() == packet(0, identifier)) }
    try bench.drain()
    #expect(counts(1...4) == [1, 1, 1, 1])
  }

  @Test("The first notification that was not expected ends it: nothing is swallowed later")
  func mismatch() throws {
    script(1...5, bad: 1)
    let sender = try bench.sender(identity)
    try sender.send(frame(1), frame(2), frame(3), frame(4))
    #expect(try sender.end().bytes == packet(8, 1))
    let next = try bench.sender(confirms: true, identity)
    try next.send(frame(2), frame(5), frame(3))
    for identifier: UInt32 in [2, 5, 3] { #expect(try next.packet() == packet(0, identifier)) }
    try bench.drain()
    #expect(counts(1...5) == [1, 1, 2, 1, 1])
  }

  @Test("Another sender's notifications are its own")
  func others() throws {
    script(1...2, bad: 1)
    let sender = try bench.sender(identity)
    try sender.send(frame(1), frame(2))
    #expect(try sender.end().bytes == packet(8, 1))
    try bench.accept(frame(2), bench.gateway.directory.providerIdentity())
    try bench.drain()
    #expect(counts(2...2) == [2])
  }

  @Test("A notification for a device of this service is not delivered twice either")
  func own() throws {
    let device = try bench.gateway.connect()
    try device.enable(TestDirectory.topic)
    let own = try LegacyFrame.framed(7, LegacyFrame.bytes(device.token()))
    let last = try LegacyFrame.framed(
      8, LegacyFrame.bytes(device.token()), LegacyFrame.payload("last"))
    script(1...2, bad: 1)
    let sender = try bench.sender(identity)
    try sender.send(frame(1), own, frame(2))
    #expect(try device.client.expect(0x0a)[3] == TestService.payload)
    #expect(try sender.end().bytes == packet(8, 1))
    let next = try bench.sender(confirms: true, identity)
    try next.send(own, frame(2), last)
    for identifier: UInt32 in [7, 2, 8] { #expect(try next.packet() == packet(0, identifier)) }
    #expect(try device.client.expect(0x0a)[3] == LegacyFrame.payload("last"))
    try bench.drain()
    #expect(counts(1...2) == [1, 1])
  }

  @Test("If one of them is rejected as well, its sender is told when it sends it again")
  func second() throws {
    script(1...3, bad: 1)
    bench.script.answer(token(2).text, .delay(milliseconds: 900, then: Self.bad))
    let sender = try bench.sender(identity)
    try sender.send(frame(1), frame(2), frame(3))
    #expect(try sender.end().bytes == packet(8, 1))
    #expect(try bench.feedback(count: 1).map(\.token) == [token(2).bytes])
    let next = try bench.sender(identity)
    try next.send(frame(2), frame(3))
    #expect(try next.end().bytes == packet(8, 2))
    try bench.accept(frame(3), identity)
    try bench.drain()
    #expect(counts(1...3) == [1, 1, 1])
  }

  @Test("If the store does not take one, its sender is told, and what followed is sent once")
  func unwritten() throws {
    let store = MemoryStore()
    let bench = try RelayBench(store: store)
    let identity = try bench.gateway.directory.providerIdentity()
    for number in 1...3 { bench.script.answer(token(number).text, Self.good) }
    let sender = try bench.sender(identity)
    try waitFor { store.pendingCommitCount == 0 }
    store.holdCommits()
    store.failNextCommits(1, with: .diskFull(path: "store", detail: "on purpose"))
    try sender.send(frame(1))
    try waitFor { store.pendingCommitCount == 1 }
    try sender.send(frame(2), frame(3))
    try waitFor { bench.figures().reduce(0) { $0 + $1.count } == 3 }
    store.releaseCommits()
    #expect(try sender.end().bytes == packet(1, 1))
    try bench.drain()
    let next = try bench.sender(confirms: true, identity)
    try next.send(frame(1), frame(2), frame(3))
    for identifier: UInt32 in 1...3 { #expect(try next.packet() == packet(0, identifier)) }
    try bench.drain()
    let counts = (1...3).map { bench.script.requests(token($0).text).count }
    #expect(counts == [1, 1, 1])
  }

  @Test("If the store takes none of several, none is taken for accepted when it is sent again")
  func noneWritten() throws {
    let store = MemoryStore()
    let bench = try RelayBench(store: store)
    let identity = try bench.gateway.directory.providerIdentity()
    for number in 1...3 { bench.script.answer(token(number).text, Self.good) }
    let sender = try bench.sender(identity)
    try waitFor { store.pendingCommitCount == 0 }
    store.holdCommits()
    store.failNextCommits(.max, with: .diskFull(path: "store", detail: "on purpose"))
    try sender.send(frame(1) + frame(2) + frame(3))
    try waitFor { bench.figures().first?.count == 3 && store.pendingCommitCount > 0 }
    store.releaseCommits()
    #expect(try sender.end().bytes == packet(1, 1))
    store.failNextCommits(0, with: .closed)
    let next = try bench.sender(confirms: true, identity)
    try next.send(frame(2), frame(3))
    for identifier: UInt32 in 2...3 { #expect(try next.packet() == packet(0, identifier)) }
    try bench.drain()
    let counts = (1...3).map { bench.script.requests(token($0).text).count }
    #expect(counts == [0, 1, 1])
  }

  @Test("If the relay has no room for one, its sender is told, and those before it are sent")
  func noRoom() throws {
    let bench = try RelayBench(SpoolLimits(inboxCapacity: 2))
    let identity = try bench.gateway.directory.providerIdentity()
    for number in 1...4 { bench.script.answer(token(number).text, Self.good) }
    let sender = try bench.sender(identity)
    try sender.send(frame(1) + frame(2) + frame(3) + frame(4))
    #expect(try sender.end().bytes == packet(1, 3))
    try bench.drain()
    let next = try bench.sender(confirms: true, identity)
    try next.send(frame(3) + frame(4))
    for identifier: UInt32 in 3...4 { #expect(try next.packet() == packet(0, identifier)) }
    try bench.drain()
    let counts = (1...4).map { bench.script.requests(token($0).text).count }
    #expect(counts == [1, 1, 1, 1])
  }

  @Test("A rejection is told when it is known whether the store has what followed")
  func undecided() throws {
    let store = MemoryStore()
    let bench = try RelayBench(store: store)
    let identity = try bench.gateway.directory.providerIdentity()
    bench.script.answer(token(1).text, .delay(milliseconds: 300, then: Self.bad))
    bench.script.answer(token(2).text, Self.good)
    let sender = try bench.sender(identity)
    try sender.send(frame(1))
    try waitFor { bench.script.requests(token(1).text).count == 1 }
    try waitFor { store.pendingCommitCount == 0 }
    store.holdCommits()
    try sender.send(frame(2))
    try waitFor { store.pendingCommitCount == 1 && bench.logged("upstream rejected") }
    // The rows of what is remembered would be the next group.
    _ = bench.figures()
    #expect(store.pendingCommitCount == 1)
    store.failNextCommits(1, with: .diskFull(path: "store", detail: "on purpose"))
    store.releaseCommits()
    #expect(try sender.end().bytes == packet(8, 1))
    let next = try bench.sender(confirms: true, identity)
    try next.send(frame(2))
    #expect(try next.packet() == packet(0, 2))
    try bench.drain()
    #expect(bench.script.requests(token(2).text).count == 1)
  }
}
