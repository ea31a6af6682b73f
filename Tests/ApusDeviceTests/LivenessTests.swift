import ApusServer
import ApusWire
import Testing

@testable import ApusDevice

@Suite("A device checks whether its connection has survived")
struct LivenessTests {
  private static let configuration = CourierClient.Configuration(
    keepAliveMilliseconds: 60_000, answerMilliseconds: 10_000)

  private func connected() -> CourierClient {
    var client = CourierClient(configuration: Self.configuration)
    var output: [UInt8] = []
    client.begin(nowMilliseconds: 0, to: &output)
    var offset = 0
    _ = client.next(
      FromService.accepted().span, at: &offset, nowMilliseconds: 0, to: &output)
    return client
  }

  private func receive(_ bytes: [UInt8], at now: UInt64, _ client: inout CourierClient) {
    var (offset, output) = (0, [UInt8]())
    while client.next(bytes.span, at: &offset, nowMilliseconds: now, to: &output) != nil {}
  }

  @Test("A probe is a keep-alive with its own time for the answer")
  func probe() {
    var client = connected()
    var output: [UInt8] = []
    client.probe(answerMilliseconds: 1000, nowMilliseconds: 20_000, to: &output)
    #expect(output == bytes("0c00000005 05 0002 0001"))
    #expect(client.deadlineMilliseconds == 21_000)
    #expect(client.unansweredSilenceMilliseconds == 20_000)
    _ = client.timePassed(nowMilliseconds: 21_000, to: &output)
    #expect(client.phase == .over)
  }

  @Test(
    "A later probe does not postpone the answer to an earlier one, and an urgent one does not wait for it"
  )
  func probes() {
    var client = connected()
    var output: [UInt8] = []
    client.probe(answerMilliseconds: 1000, nowMilliseconds: 20_000, to: &output)
    output = []
    client.probe(answerMilliseconds: 1000, nowMilliseconds: 20_500, to: &output)
    #expect(output.isEmpty && client.deadlineMilliseconds == 21_000)
    client = connected()
    _ = client.timePassed(nowMilliseconds: 60_000, to: &output)
    #expect(client.deadlineMilliseconds == 70_000)
    client.probe(answerMilliseconds: 1000, nowMilliseconds: 61_000, to: &output)
    #expect(client.deadlineMilliseconds == 62_000)
  }

  @Test("The silence before an answered keep-alive is reported once, and not for other frames")
  func silence() {
    var client = connected()
    var output: [UInt8] = []
    _ = client.timePassed(nowMilliseconds: 60_000, to: &output)
    receive(bytes("0d 00000000"), at: 60_100, &client)
    #expect(client.takeAnsweredSilence() == 60_000)
    #expect(client.takeAnsweredSilence() == nil)
    _ = client.timePassed(nowMilliseconds: 120_100, to: &output)
    receive(FromService.notification(id: 5), at: 120_200, &client)
    #expect(client.takeAnsweredSilence() == nil && client.unansweredSilenceMilliseconds == nil)
  }

  @Test("Another interval counts from the last frame, and is announced in minutes")
  func interval() {
    var client = connected()
    client.setKeepAlive(milliseconds: 300_000)
    #expect(client.deadlineMilliseconds == 300_000)
    var output: [UInt8] = []
    _ = client.timePassed(nowMilliseconds: 300_000, to: &output)
    #expect(output == bytes("0c00000005 05 0002 0005"))
  }

  @Test("Without a connection nothing is sent")
  func offline() {
    var client = CourierClient(configuration: Self.configuration)
    var output: [UInt8] = []
    client.probe(answerMilliseconds: 1000, nowMilliseconds: 0, to: &output)
    #expect(output.isEmpty && client.deadlineMilliseconds == nil)
  }

  @Test("It connects again at once, however long it would have waited", .timeLimit(.minutes(10)))
  func reconnects() async throws {
    let live = try LiveService()
    defer { live.service.stop() }
    let device = try LiveDevice(
      live, identity: live.issueDevice(),
      backoff: .init(firstMilliseconds: 3_600_000, maximumMilliseconds: 3_600_000))
    device.perform { $0.start() }
    let token = try await device.connected(isNew: true)
    try await device.nothingStored()
    device.perform { connection in
      connection.shared.turn(connection) { connection.connectAnew() }
    }
    #expect(try await device.connectedAtLast(isResumed: true) == token)
    try await device.nothingStored()
    // A service that answers keeps its connection.
    device.perform { $0.verify(answerMilliseconds: 60_000) }
    try await device.stop()
  }
}
