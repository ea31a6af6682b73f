import ApusCore
import ApusDirectory
import ApusModel
import ApusTesting
import ApusWebhooks
import ApusWire
import Foundation
import Testing

@Suite("What webhooks are told")
struct ServiceEventTests {
  private let receiver: WebhookReceiver
  private let service: TestService
  private let named: TestDevice

  init() throws {
    receiver = try WebhookReceiver()
    let directory = try TestDirectory()
    try directory.data.add(
      Webhook(name: "one", url: receiver.url, events: .all, secrets: ["secret"]))
    named = try directory.device()
    let labels = try #require(DeviceLabels(name: DeviceName("Kitchen panel"), tags: []))
    try LabelRegister(directory.data).change { [named] _ in [named.id: labels] }
    service = try TestService(directory)
    // The service reads the file on a thread of its own.
    let file = "\(directory.data.webhookFolder)/one.state"
    for _ in 0..<500 where !Files.exists(file) { usleep(10_000) }
  }

  private func wait(_ kind: EventKind, count: Int = 1) -> [JSONValue] {
    func found(_ requests: [WebhookReceiver.Request]) -> [JSONValue] {
      requests.flatMap(\.events).filter { $0["event"]?.string == kind.rawValue }
    }
    return found(receiver.wait { found($0).count >= count })
  }

  @Test("A device connects, gets a push, removes its app, and is retired")
  func device() throws {
    defer { service.stop() }
    let device = try service.connect(named)
    let id = device.device.id.text
    let token = try device.token()
    try device.enable(TestDirectory.topic)
    func isNamed(_ event: JSONValue?) -> Bool {
      event?["device_name"]?.string == "Kitchen panel"
    }
    let first = wait(.deviceFirstSeen)
    #expect(isNamed(first.first) && isNamed(wait(.deviceConnected).first))
    #expect(first.count == 1)
    #expect(first[0]["device"]?.string == id)
    #expect(first[0]["environment"]?.string == "production")
    #expect(wait(.deviceConnected).map { $0["device"]?.string } == [id])

    let provider = try service.provider()
    let headers = try service.pushHeaders(to: token, authorization: service.authorization())
      .setting("apns-id", "00000000-0000-4000-8000-000000000007")
    let stream = try provider.request(headers, body: TestService.payload)
    try device.acknowledge(try device.notification())
    #expect(try provider.response(to: stream).status == 200)
    let finished = try #require(wait(.notificationFinished).first)
    #expect(finished["apns_id"]?.string == "00000000-0000-4000-8000-000000000007")
    #expect(finished["state"]?.string == "Delivered to Device")
    #expect(finished["topic"]?.string == TestDirectory.topic)
    #expect(finished["device"]?.string == id && isNamed(finished))

    try device.filter([])
    try device.settle()
    let died = try #require(wait(.tokenDied).first)
    #expect(died["token"]?.string == token)
    #expect(died["topic"]?.string == TestDirectory.topic)
    #expect(died["device"]?.string == id && isNamed(died))

    device.client.tls.reset()
    let again = try service.connect(named)
    #expect(wait(.deviceConnected, count: 2).count == 2)
    again.client.tls.reset()
    try service.directory.data.retire(device.device.id, nowSeconds: TestDirectory.nowSeconds)
    #expect(wait(.deviceRetired).map { $0["device"]?.string } == [id])
    #expect(isNamed(wait(.deviceRetired).first))
    #expect(wait(.deviceFirstSeen).count == 1)
  }

  @Test("With several nodes that decide, each event is told once, by the node of the device's part")
  func parts() throws {
    service.stop()
    let service = try TestService(
      service.directory, .init { ($0.parts, $0.isBehindEdge) = (2, false) })
    defer { service.stop() }
    let file = "\(service.directory.data.webhookFolder(ofPart: 1))/one.state"
    for _ in 0..<500 where !Files.exists(file) { usleep(10_000) }
    var devices: [TestDevice] = []
    for part in 0..<2 {
      let share = try #require(DeviceShare(part: part, of: 2))
      while devices.count == part {
        let device = try service.directory.device()
        if share.contains(device.id) { devices.append(device) }
      }
    }
    for device in devices { try service.connect(device).client.tls.reset() }
    let connected = wait(.deviceConnected, count: 2)
    #expect(Set(connected.map { $0["device"]?.string }) == Set(devices.map(\.id.text)))
    #expect(connected.count == 2 && Set(connected.compactMap { $0["id"]?.integer }).count == 2)
    for device in devices {
      try service.directory.data.retire(device.id, nowSeconds: TestDirectory.nowSeconds)
    }
    #expect(wait(.deviceRetired, count: 2).count == 2)
    // What is found by looking is told by one node.
    try Files.write("[nonsense]\n", to: service.directory.data.directoryFile, isPrivate: false)
    #expect(wait(.trustStale).count == 1)
  }

  @Test("Trust data that cannot be read is reported, once")
  func stale() throws {
    defer { service.stop() }
    let file = service.directory.data.directoryFile
    let text = try Files.readText(file)
    try Files.write("[nonsense]\n", to: file, isPrivate: false)
    let events = wait(.trustStale)
    #expect(events.count == 1)
    #expect(events.first?["reason"]?.string?.contains("directory.conf") == true)
    try Files.write(text, to: file, isPrivate: false)
  }
}
