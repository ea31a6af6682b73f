import ApusCore
import ApusModel
import ApusTesting
import Testing

@Suite("How connections of the binary interface end")
struct GatewayEndTests {
  let service: TestService
  private let token: [UInt8]

  init() throws {
    service = try Gateways.service
    token = try service.absentToken()
  }

  private func gateway(
    _ listener: Gateways.Listener = .standard
  ) throws -> RawGatewayClient {
    try service.gateway(listener, identity: Gateways.identity)
  }

  @Test("The packet can be read before the end of the connection")
  func pause() throws {
    // A busy machine may deliver both together although they were sent separately, but not every time.
    var isApart = false
    for _ in 0..<20 where !isApart {
      let client = try gateway()
      try client.send(GatewayFrame.knownBad(7))
      _ = try client.end()
      let records = client.tls.records
      #expect(records.map(\.plaintext) == [GatewayFrame.packet(2, 7), []])
      isApart = records.count == 2 && records[0].read != records[1].read
      client.tls.close()
    }
    #expect(isApart)
  }

  @Test("Ten megabytes after a bad frame lose neither the packet nor the end")
  func discarded() throws {
    try withBystanders(service) {
      let client = try gateway()
      // Encrypted as a whole, and sent as fast as the service reads.
      let frame = GatewayFrame.framed(1, token, GatewayFrame.payload(byteCount: 2000))
      try client.send(
        frame, GatewayFrame.knownBad(7), joined(repeatElement(frame, count: 5000)))
      try expectEnd(client, GatewayFrame.packet(2, 7))
    }
  }

  @Test("Frames after a bad one are not delivered")
  func notDelivered() throws {
    let device = try service.connect()
    let token = try hex(device.token())
    try device.enable(TestDirectory.topic)
    let client = try gateway()
    let late = (0..<50).flatMap { _ in GatewayFrame.framed(1, token) }
    try client.send(GatewayFrame.knownBad(7) + late)
    try client.send(late)
    try expectEnd(client, GatewayFrame.packet(2, 7))
    try device.settle()
    #expect(!device.client.received.map(\.command).contains(0x0a))
  }

  @Test("A provider that has closed its side still gets its packet", arguments: [false, true])
  func halfClosed(saysGoodbye: Bool) throws {
    let client = try gateway(.confirming)
    try client.send(
      GatewayFrame.framed(1, token), GatewayFrame.framed(2, token), GatewayFrame.knownBad(3))
    if saysGoodbye { try client.tls.finish() } else { client.tls.shutdownWrite() }
    try expectEnd(
      client, GatewayFrame.packet(2, 3),
      behind: GatewayFrame.packet(0, 1) + GatewayFrame.packet(0, 2))
  }

  @Test("A provider that leaves in the middle of a frame gets nothing", arguments: [false, true])
  func cutFrame(saysGoodbye: Bool) throws {
    for count in [1, 5, 40, 82] {
      let client = try gateway(.confirming)
      try client.send(
        GatewayFrame.framed(1, token), Array(GatewayFrame.framed(2, token).prefix(count)))
      if saysGoodbye { try client.tls.finish() } else { client.tls.shutdownWrite() }
      let end = try client.end()
      #expect(end.bytes == GatewayFrame.packet(0, 1), "\(count)")
      #expect(end.end == .closeNotify && end.transport == .endOfStream, "\(count)")
    }
  }

  @Test("Providers that are reset at any point do not affect others")
  func reset() throws {
    try withBystanders(service) {
      for count in [0, 1, 40, 83, 100] {
        let client = try gateway()
        try client.send(
          Array((GatewayFrame.framed(1, token) + GatewayFrame.knownBad(2)).prefix(count)))
        client.tls.reset()
      }
    }
  }
}

@Suite("The binary interface during a shutdown")
struct GatewayStopTests {
  private func service(workers: Int) throws -> TestService {
    try TestService(
      nil,
      .init {
        $0.workers = workers
        $0.gatewayRules = Gateways.rules
      })
  }

  /// Reads until the end while the service shuts down on its own thread.
  private func stop(_ service: TestService, _ body: () throws -> Void) throws {
    let thread = StopThread(service)
    defer { thread.join() }
    try body()
  }

  @Test("Status 10 has the last accepted identifier, in its own record", arguments: [1, 2])
  func accepted(workers: Int) throws {
    let service = try service(workers: workers)
    let token = try service.absentToken()
    let identity = try service.directory.providerIdentity()
    let confirmed = try service.gateway(.confirming, identity: identity)
    let silent = try service.gateway(.standard, identity: identity)
    for identifier in [UInt32(5), 0, 3] {
      try confirmed.send(GatewayFrame.framed(identifier, token))
      #expect(try confirmed.packet() == GatewayFrame.packet(0, identifier))
      try silent.send(GatewayFrame.enhanced(identifier + 100, token))
    }
    try waitUntil("six notifications to be accepted") {
      service.service.counts()[.received] == 6
    }
    try stop(service) {
      try expectEnd(confirmed, GatewayFrame.packet(10, 3))
      try expectEnd(silent, GatewayFrame.packet(10, 103))
    }
  }

  @Test("Without an accepted notification the identifier is 0; command 0 gets a plain end")
  func nothing() throws {
    let service = try service(workers: 1)
    let identity = try service.directory.providerIdentity()
    let begun = try service.gateway(.standard, identity: identity)
    try begun.send(Array(GatewayFrame.framed(9, Array(0..<32)).prefix(40)))
    let unused = try service.gateway(.standard, identity: identity)
    let simple = try service.gateway(.standard, identity: identity)
    try simple.send(GatewayFrame.simple(service.absentToken()))
    // Once the single worker has answered this connection, it has processed all of them.
    let last = try service.gateway(.standard, identity: identity)
    try last.send(GatewayFrame.knownBad(1))
    try expectEnd(last, GatewayFrame.packet(2, 1))
    try stop(service) {
      try expectEnd(begun, GatewayFrame.packet(10, 0))
      // A frame written now crosses the packet.
      try expectEnd(unused, GatewayFrame.packet(10, 0))
      // Command 0 has no identifier to report.
      try expectEnd(simple, nil)
    }
  }

  @Test("Fifty providers each get their own identifier", arguments: [1, 2])
  func many(workers: Int) throws {
    let service = try service(workers: workers)
    let token = try service.absentToken()
    let identity = try service.directory.providerIdentity()
    let clients = try (0..<50).map { index in
      let client = try service.gateway(.standard, identity: identity)
      try client.send(GatewayFrame.framed(UInt32(index), token))
      return client
    }
    try waitUntil("50 notifications to be accepted") { service.service.counts()[.received] == 50 }
    try stop(service) {
      for (index, client) in clients.enumerated() {
        try expectEnd(client, GatewayFrame.packet(10, UInt32(index)), "\(index)")
      }
    }
  }

  @Test("Notifications accepted before status 10 are there after the restart")
  func kept() throws {
    let directory = try TestDirectory()
    let options = TestService.Options {
      $0.isEphemeral = false
      $0.gatewayRules = Gateways.rules
    }
    let device = try directory.device()
    let first = try TestService(directory, options)
    let connection = try first.connect(device)
    let token = try hex(connection.token())
    try connection.enable(TestDirectory.topic)
    connection.client.tls.reset()
    let client = try first.gateway(.standard, identity: directory.providerIdentity())
    let payloads = (0..<20).map { GatewayFrame.payload("\($0)") }
    for (index, payload) in payloads.enumerated() {
      try client.send(GatewayFrame.framed(UInt32(index), token, payload))
    }
    var last: [UInt8] = []
    try stop(first) {
      let end = try client.end()
      #expect(end.bytes.count == 6 || end.bytes.isEmpty)
      #expect(end.end == .closeNotify)
      last = end.bytes
      client.tls.close()
    }
    // Everything after the packet's identifier is lost and sent again; everything before it is kept.
    guard last.count == 6 else { return }
    let second = try TestService(directory, options)
    defer { second.stop() }
    let again = try second.connect(device)
    try again.filter([(2, TestDirectory.topic)])
    #expect(try again.notification()[3] == GatewayFrame.payload("\(last[5])"))
  }

  @Test("Rejections are counted under the reason of the HTTP/2 interface")
  func counted() throws {
    let service = try TestService(nil, .init { $0.gatewayRules = Gateways.rules })
    let token = try service.absentToken()
    let identity = try service.directory.providerIdentity()
    let late = GatewayFrame.framed(9, Array(repeating: 1, count: 32))
    let refused: [(bytes: [UInt8], reason: Reason)] = [
      (GatewayFrame.knownBad(1), .missingDeviceToken),
      (GatewayFrame.framed(1, Array(repeating: 1, count: 32)), .badDeviceToken),
      (GatewayFrame.framed(1, token, [0x61]), .badRequestPayload),
      (GatewayFrame.framed(1, token, GatewayFrame.payload(byteCount: 2049)), .payloadTooLarge),
      ([3], .badRequestPayload),
    ]
    var expected: [Reason: UInt64] = [:]
    for (bytes, reason) in refused {
      let client = try service.gateway(.standard, identity: identity)
      // Nothing is reported about later frames.
      try client.send(GatewayFrame.framed(0, token) + bytes + late)
      _ = try client.end()
      client.tls.close()
      expected[reason, default: 0] += 1
      #expect(service.service.rejections().filter { $0.value > 0 } == expected)
    }
    service.stop()
  }
}
