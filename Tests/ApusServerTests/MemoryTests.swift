import ApusModel
import ApusTesting
import Testing

@Suite("Stalled devices use a bounded amount of memory, and their providers wait")
struct MemoryTests {
  private let service: TestService
  private let devices: [ConnectedDevice]
  private let tokens: [String]

  init() throws {
    service = try TestService(
      nil,
      .init {
        $0.workers = 2
        $0.memoryMegabytes = 1
      })
    let service = service
    devices = try (0..<4).map { _ in try service.connect() }
    tokens = try devices.map { try $0.token() }
    for device in devices { try device.enable(TestDirectory.topic) }
  }

  private static let count = 100
  private static let payloads = (0..<count).map { index in
    Array(#"{"aps":{"alert":"\#(index)"},"filler":"\#(String(repeating: "x", count: 1900))"}"#.utf8)
  }

  /// Another device is served, little is accepted for stalled devices, and then everything arrives.
  private func expectDelivery() throws {
    try withBystanders(service) {}
    #expect(service.service.notificationBytes() < 1 << 20)
    let accepted = service.service.counts()[.received] ?? 0
    #expect(accepted < UInt64(devices.count * Self.count / 2))
    // The provider has one connection, so notifications for one device may be behind those for another.
    var received = devices.map { _ in [[UInt8]]() }
    for index in 0..<Self.count {
      for (place, device) in devices.enumerated() {
        let notification = try device.notification()
        try device.acknowledge(notification)
        received[place].append(notification[3] ?? [])
        #expect(received[place].last == Self.payloads[index])
      }
    }
    for device in devices { try device.settle() }
    #expect(service.service.notificationBytes() == 0)
  }

  @Test("Frames of the binary interface are bounded")
  func binary() throws {
    defer { service.stop() }
    let frames = Self.payloads.enumerated().flatMap { index, payload in
      tokens.flatMap { GatewayFrame.framed(UInt32(index), hex($0), payload, expiration: 0) }
    }
    let client = try service.gateway(
      listener: 0, identity: try service.directory.providerIdentity())
    try client.send(frames, GatewayFrame.knownBad(0xbad))
    try expectDelivery()
    try expectEnd(client, GatewayFrame.packet(2, 0xbad))
  }

  @Test("Requests of the HTTP/2 interface are bounded")
  func http2() throws {
    defer { service.stop() }
    let provider = try service.provider(identity: try service.directory.providerIdentity())
    var streams: [UInt32] = []
    for payload in Self.payloads {
      for token in tokens {
        let headers = service.pushHeaders(to: token, authorization: nil)
          .setting("apns-expiration", "0")
        streams.append(try provider.request(headers, body: payload))
      }
    }
    try expectDelivery()
    for stream in streams { #expect(try provider.response(to: stream).status == 200) }
  }
}
