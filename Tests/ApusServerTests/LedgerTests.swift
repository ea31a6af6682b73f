import ApusDirectory
import ApusLoop
import ApusModel
import ApusServer
import ApusTesting
import Testing

/// Providers push, devices receive or do not, and the ledger of the running service has the result.
@Suite("Ledger queries")
struct LedgerTests {
  let service: TestService

  init() throws { service = try TestService(nil, .init { $0.isEphemeral = false }) }

  /// Sends a push, and returns the two ids of the answer.
  private func push(
    _ token: String, expiresInSeconds: Int64 = 3600, priority: Int = 10
  ) throws -> (id: NotificationID, uniqueID: NotificationID) {
    let expiration = expiresInSeconds > 0 ? TestDirectory.nowSeconds + expiresInSeconds : 0
    let headers =
      try service.pushHeaders(to: token, authorization: service.authorization()) + [
        RawHeader(.apnsExpiration, "\(expiration)"), RawHeader(.apnsPriority, "\(priority)"),
      ]
    let response = try service.provider(.development).exchange(headers, body: TestService.payload)
    #expect(response.status == 200)
    return (
      try #require(Self.id(response["\(HeaderName.apnsID.text)"])),
      try #require(Self.id(response["\(HeaderName.apnsUniqueID.text)"]))
    )
  }

  private static func id(_ text: String?) -> NotificationID? {
    let bytes = Array((text ?? "").utf8)
    return NotificationID(text: bytes.span)
  }

  /// The labels of a query's lines, once there are as many as expected; a line may be up to a second late.
  private func labels(
    _ count: Int, _ change: (inout LedgerQuery) -> Void
  ) throws -> [DeliveryState] {
    var query = LedgerQuery()
    change(&query)
    let log = try LedgerLog(service.directory.data)
    let deadline = EventLoop.wallClockMilliseconds() + 20_000
    var found: [DeliveryState] = []
    repeat {
      found += try log.read(query, limit: 1000).map(\.event.state)
    } while found.count < count && EventLoop.wallClockMilliseconds() < deadline
    return found
  }

  private func expectBalance(
    accepted: UInt64, pending: Int64, sourceLocation: SourceLocation = #_sourceLocation
  ) {
    let counters = service.service.topicCounters()
    #expect(counters.allSatisfy { $0.isBalanced }, sourceLocation: sourceLocation)
    #expect(counters.reduce(0) { $0 + $1.accepted } == accepted, sourceLocation: sourceLocation)
    #expect(counters.reduce(0) { $0 + $1.pending } == pending, sourceLocation: sourceLocation)
  }

  @Test("An immediate delivery is found by id, unique id, token and device, and by no other value")
  func delivered() throws {
    let device = try service.connect(nil, .development)
    let token = try device.token()
    try device.enable(TestDirectory.topic)
    let ids = try push(token)
    try device.acknowledge(device.notification())
    try device.settle()
    let expected: [DeliveryState] = [.received, .sent, .delivered]
    #expect(try labels(3) { $0.id = ids.id } == expected)
    #expect(try labels(3) { $0.uniqueID = ids.uniqueID } == expected)
    let digits = Array(token.utf8)
    let parsed = DeviceToken(hex: digits.span)
    let words = try #require(parsed).words
    #expect(try labels(3) { $0.tokenPrefix = words.0 } == expected)
    #expect(try labels(3) { $0.device = device.device.id } == expected)
    #expect(try labels(0) { $0.id = ids.uniqueID } == [])
    #expect(try labels(0) { $0.device = DeviceID(1) } == [])
    expectBalance(accepted: 1, pending: 0)
  }

  @Test("A stored notification is delivered from storage with the same ids, even after a restart")
  func fromStorage() throws {
    let device = try service.connect(nil, .development)
    let token = try device.token()
    try device.enable(TestDirectory.topic)
    device.client.tls.close()
    try awaitDisconnection()
    let ids = try push(token)
    expectBalance(accepted: 1, pending: 1)
    service.stop()
    // Queries work the same without a running service.
    #expect(try labels(2) { $0.id = ids.id } == [.received, .storedDeviceOffline])

    let next = try TestService(service.directory, .init { $0.isEphemeral = false })
    let before = next.service.topicCounters()
    #expect(before.allSatisfy(\.isBalanced) && before.reduce(0) { $0 + $1.pending } == 1)
    let again = try next.connect(device.device, .development)
    try again.filter([(2, TestDirectory.topic)])
    try again.acknowledge(again.notification())
    try again.settle()
    let after = next.service.topicCounters()
    #expect(after.allSatisfy(\.isBalanced) && after.reduce(0) { $0 + $1.pending } == 0)
    #expect(after.reduce(0) { $0 + $1.accepted } == 1)
    next.stop()
    let expected: [DeliveryState] = [
      .received, .storedDeviceOffline, .sent, .deliveredFromStorage,
    ]
    #expect(try labels(4) { $0.uniqueID = ids.uniqueID } == expected)
  }

  private func awaitDisconnection() throws {
    let deadline = EventLoop.wallClockMilliseconds() + 20_000
    while service.service.connectionCount() > 0 {
      try #require(EventLoop.wallClockMilliseconds() < deadline)
    }
  }

  @Test("Replaced, discarded and rejected notifications each have their own end")
  func otherEnds() throws {
    let device = try service.connect(nil, .development)
    let token = try device.token()
    try device.enable(TestDirectory.topic)
    let refused = try push(token)
    try device.acknowledge(device.notification(), status: 2)
    try device.settle()
    #expect(try labels(3) { $0.id = refused.id } == [.received, .sent, .refusedByDevice])
    try device.filter([(5, TestDirectory.topic)])
    try device.settle()
    let old = try push(token)
    let new = try push(token)
    #expect(
      try labels(3) { $0.id = old.id } == [.received, .storedDeviceOffline, .replaced])
    #expect(try labels(2) { $0.id = new.id } == [.received, .storedDeviceOffline])
    let never = try push(token, expiresInSeconds: 0)
    #expect(try labels(2) { $0.id = never.id } == [.received, .discardedNotStored])
    expectBalance(accepted: 4, pending: 1)
  }

  @Test("After a kill, the counters agree with the stored notifications")
  func killed() throws {
    let device = try service.connect(nil, .development)
    let token = try device.token()
    try device.enable(TestDirectory.topic)
    try device.filter([(5, TestDirectory.topic)])
    try device.settle()
    for _ in 0..<5 { _ = try push(token) }
    // The provider was answered, so the group is on disk with the counters, without waiting for a second.
    let counters = try LedgerLog(service.directory.data).counters()
    #expect(counters.allSatisfy { $0.isBalanced })
    #expect(counters.reduce(0) { $0 + $1.accepted } == 5)
    #expect(counters.reduce(0) { $0 + $1.pending } == 1)
  }

  @Test("A topic is found by its text, and a foreign token is not valid")
  func names() throws {
    _ = try service.connect(nil, .development)
    let log = try LedgerLog(service.directory.data)
    let topic = try #require(log.topic(TestDirectory.topic))
    #expect(log.text(topic) == TestDirectory.topic)
    let voip = try #require(log.topic(TestDirectory.topic + ".voip"))
    #expect(voip.app == topic.app && voip.suffix == .voip)
    #expect(log.text(voip) == TestDirectory.topic + ".voip")
    #expect(log.topic("com.example.nobody") == nil)
    #expect(log.claims(of: DeviceToken(words: (1, 2, 3, 4))) == nil)
  }

  @Test("Without a ledger the query is an error that says so")
  func absent() throws {
    let directory = try TestDirectory()
    #expect(throws: DirectoryProblem.self) { try LedgerLog(directory.data) }
  }
}
