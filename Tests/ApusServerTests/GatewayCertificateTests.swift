import ApusDirectory
import ApusModel
import ApusServer
import ApusTLS
import ApusTesting
import ApusTrust
import Testing

@Suite("Certificates at the listeners of the binary interface")
struct GatewayCertificateTests {
  let service: TestService

  init() throws { service = try Gateways.service }

  static let listeners: [ListenerKind] = [.gateway, .feedback]

  /// How the connection ends for a client with this certificate, with each TLS version.
  private func ends(
    _ service: TestService, _ kind: ListenerKind, _ identity: TLSIdentity?
  ) throws -> [RawEnd] {
    try [TLSVersion.v1_2, .v1_3].map { version in
      do {
        let client = try service.tls(kind, protocols: [], identity: identity) {
          ($0.minimumVersion, $0.maximumVersion) = (version, version)
        }
        let (bytes, end) = try client.receiveAll()
        #expect(bytes.isEmpty, "\(version)")
        return end
      } catch RawFault.ended(let end, _) {
        return end
      }
    }
  }

  @Test("Without a certificate the handshake fails: alert 40 or 116", arguments: listeners)
  func none(listener: ListenerKind) throws {
    // RFC 5246, section 7.4.6; RFC 8446, section 4.4.2.4.
    let alerts: [RawEnd] = [.failed(.alertReceived(40)), .failed(.alertReceived(116))]
    #expect(try ends(service, listener, nil) == alerts)
  }

  @Test("Foreign, expired and device certificates fail the handshake", arguments: listeners)
  func untrusted(listener: ListenerKind) throws {
    let directory = service.directory
    let foreign = try directory.providerIdentity(authority: directory.foreignAuthority)
    let device = try directory.device().identity
    let expired = try directory.providerIdentity(validity: TestDirectory.expired)
    for (identity, alert) in [(foreign, UInt8(48)), (device, 48), (expired, 45)] {
      let end = RawEnd.failed(.alertReceived(alert))
      #expect(try ends(service, listener, identity) == [end, end])
    }
  }

  @Test(
    "A certificate for the other environment, or not for push, is closed without a byte",
    arguments: listeners)
  func environment(listener: ListenerKind) throws {
    let directory = service.directory
    let development = try directory.providerIdentity(environments: .development)
    let device = try directory.device(authority: directory.serviceAuthority).identity
    for identity in [development, device] {
      #expect(try ends(service, listener, identity) == [.closeNotify, .closeNotify])
    }
    // The listener of its environment accepts it.
    let client = try service.gateway(.development, identity: development)
    try client.send(GatewayFrame.knownBad(1))
    try expectEnd(client, GatewayFrame.packet(2, 1))
  }

  @Test(
    "A certificate without a topic of its team gets status 3 at the first notification",
    arguments: [
      TestDirectory.unusableTopic, TestDirectory.unknownTopic, TestDirectory.foreignTopic,
    ])
  func topic(topic: String) throws {
    let identity = try service.directory.providerIdentity(topic: topic)
    let token = try service.absentToken()
    let client = try service.gateway(.standard, identity: identity)
    try client.send(GatewayFrame.framed(77, token))
    try expectEnd(client, GatewayFrame.packet(3, 77))
    // Errors in the frame itself have priority.
    let other = try service.gateway(.standard, identity: identity)
    try other.send(GatewayFrame.knownBad(78))
    try expectEnd(other, GatewayFrame.packet(2, 78))
    let simple = try service.gateway(.standard, identity: identity)
    try simple.send(GatewayFrame.simple(token))
    try expectEnd(simple, nil)
    #expect(try service.feedback(identity: identity).isEmpty)
  }

  @Test("A certificate for several topics sends to the one in its name")
  func severalTopics() throws {
    let identity = try service.directory.providerIdentity(
      topics: .init(entries: [
        .init(topic: TestDirectory.topic, labels: ["app"]),
        .init(topic: TestDirectory.otherTopic, labels: ["app"]),
      ]))
    let client = try service.gateway(.confirming, identity: identity)
    try client.send(GatewayFrame.framed(1, service.absentToken()))
    #expect(try client.packet() == GatewayFrame.packet(0, 1))
    try client.send(GatewayFrame.framed(2, service.absentToken(TestDirectory.otherTopic)))
    try expectEnd(client, GatewayFrame.packet(8, 2))
  }

  @Test("Revocation refuses new connections, and closes open ones without a packet")
  func revoked() throws {
    let service = try TestService(nil, .init { $0.gatewayRules = Gateways.rules })
    defer { service.stop() }
    let identity = try service.directory.providerIdentity()
    let other = try service.directory.providerIdentity()
    let token = try service.absentToken()
    let clients = try (0..<4).map { _ in try service.gateway(.confirming, identity: identity) }
    let bystander = try service.gateway(.confirming, identity: other)
    for client in clients + [bystander] {
      try client.send(GatewayFrame.framed(1, token))
      #expect(try client.packet() == GatewayFrame.packet(0, 1))
    }
    try service.directory.revoke(identity)
    service.service.reload()
    for client in clients {
      #expect(try client.end() == GatewayEnd(bytes: [], end: .closeNotify, transport: .endOfStream))
    }
    // RFC 8446, section 6.2: certificate_revoked.
    let end = RawEnd.failed(.alertReceived(44))
    for listener in Self.listeners { #expect(try ends(service, listener, identity) == [end, end]) }
    try bystander.send(GatewayFrame.framed(2, token))
    #expect(try bystander.packet() == GatewayFrame.packet(0, 2))
  }

  @Test("Removing a topic from the directory also affects open connections")
  func removedTopic() throws {
    let service = try TestService(nil, .init { $0.gatewayRules = Gateways.rules })
    defer { service.stop() }
    let identity = try service.directory.providerIdentity(topic: TestDirectory.otherTopic)
    let token = try service.absentToken(TestDirectory.otherTopic)
    let client = try service.gateway(.confirming, identity: identity)
    try client.send(GatewayFrame.framed(1, token))
    #expect(try client.packet() == GatewayFrame.packet(0, 1))
    var records = try service.directory.data.records()
    records.sections.removeAll { section in
      section.name == TestDirectory.otherTopic || section["topics"] == TestDirectory.otherTopic
    }
    try service.directory.data.save(records)
    service.service.reload()
    // Workers learn of it in the order of requests to them, and this is a request to all.
    _ = service.service.counts()
    try client.send(GatewayFrame.framed(2, token))
    try expectEnd(client, GatewayFrame.packet(3, 2))
  }
}
