import ApusTLS
import Testing

@Suite("TLS for legacy senders")
struct LegacyTests {
  let certificates: TestCertificates

  init() throws { certificates = try TestCertificates.make() }

  enum Kind: CaseIterable, Sendable { case ecdsa, rsa }

  private func authority(_ kind: Kind) -> [UInt8] {
    kind == .ecdsa ? certificates.authority : certificates.rsaAuthority
  }

  /// Like a listener of the binary interface: every version, no tickets, no ALPN, and a required certificate.
  private func server(
    _ kind: Kind, _ change: (inout TLSServerConfiguration) -> Void = { _ in }
  ) -> TLSServerConfiguration {
    certificates.serverConfiguration {
      $0.identity = kind == .ecdsa ? certificates.server : certificates.rsaServer
      $0.minimumVersion = .v1_0
      $0.sessionTickets = false
      $0.clientCertificates = .required(authoritiesPEM: authority(kind))
      change(&$0)
    }
  }

  private func client(
    _ kind: Kind, _ version: TLSVersion, _ change: (inout TLSClientConfiguration) -> Void = { _ in }
  ) -> TLSClientConfiguration {
    certificates.clientConfiguration {
      $0.trustRoots = .authorities(PEM: authority(kind))
      $0.identity = kind == .ecdsa ? certificates.device : certificates.rsaDevice
      $0.minimumVersion = .v1_0
      $0.maximumVersion = version
      change(&$0)
    }
  }

  @Test(
    "Every version is served with mutual authentication, with ECDSA and RSA",
    arguments: TLSVersion.allCases, Kind.allCases)
  func versions(version: TLSVersion, kind: Kind) throws {
    let pair = try Pair.connected(client(kind, version), server(kind))
    for side in [pair.client, pair.server] {
      #expect(side.failure == nil)
      #expect(side.connection.isEstablished)
      #expect(side.connection.version == version)
    }
    let device = kind == .ecdsa ? certificates.device : certificates.rsaDevice
    #expect(pair.server.connection.peerCertificateDER == der(device))
    if version < .v1_3 {
      let cipher = try #require(pair.server.connection.cipherName)
      #expect(cipher.hasPrefix(kind == .ecdsa ? "ECDHE-ECDSA-" : "ECDHE-RSA-"))
    }
    for (source, target) in [(pair.client, pair.server), (pair.server, pair.client)] {
      try source.write(pattern(40000))
      pair.exchange()
      #expect(target.received == pattern(40000))
    }
    pair.server.close()
    pair.exchange()
    #expect(pair.client.isClosedByPeer)
  }

  @Test(
    "By default old versions are refused with protocol_version",
    arguments: [TLSVersion.v1_0, .v1_1], Kind.allCases)
  func refused(version: TLSVersion, kind: Kind) throws {
    let pair = try Pair.connected(
      client(kind, version),
      server(kind) {
        $0.minimumVersion = TLSServerConfiguration(identity: certificates.server).minimumVersion
      })
    #expect(pair.server.failure == .handshakeFailed(reason: "unsupported protocol", alert: 70))
    #expect(pair.client.failure == .alertReceived(70))
    #expect(pair.server.connection.refusedVersion == version)
    #expect(pair.client.connection.refusedVersion == nil)
  }

  @Test("A client whose version is allowed has no refused version, however its handshake fails")
  func notRefused() throws {
    // RFC 2246, section 7.4.1.2: ClientHello of TLS 1.0 with TLS_RSA_WITH_AES_128_CBC_SHA alone.
    let hello: [UInt8] =
      [0x16, 0x03, 0x01, 0x00, 0x2d, 0x01, 0x00, 0x00, 0x29, 0x03, 0x01]
      + [UInt8](repeating: 0x5a, count: 32) + [0x00, 0x00, 0x02, 0x00, 0x2f, 0x01, 0x00]
    let allowed = try Side(TLSContext(server: server(.ecdsa)), TLSBuffers())
    #expect(allowed.connection.refusedVersion == nil)
    allowed.feed(hello)
    #expect(allowed.failure != nil)
    #expect(allowed.connection.refusedVersion == nil)
    let refused = try Side(
      TLSContext(server: server(.ecdsa) { $0.minimumVersion = .v1_2 }), TLSBuffers())
    refused.feed(hello)
    #expect(refused.connection.refusedVersion == .v1_0)
    // Not TLS at all.
    let other = try Side(
      TLSContext(server: server(.ecdsa) { $0.minimumVersion = .v1_2 }), TLSBuffers())
    other.feed(Array("GET / HTTP/1.0\r\n\r\n".utf8))
    #expect(other.failure != nil)
    #expect(other.connection.refusedVersion == nil)
    // The newest versions that fail for another reason: no client certificate.
    for version in [TLSVersion.v1_2, .v1_3] {
      let pair = try Pair.connected(
        client(.ecdsa, version) { $0.identity = nil }, server(.ecdsa) { $0.minimumVersion = .v1_2 })
      #expect(pair.server.failure != nil)
      #expect(pair.server.connection.refusedVersion == nil)
    }
  }

  @Test(
    "Without tickets nothing follows a handshake with client authentication",
    arguments: [true, false])
  func silence(sessionTickets: Bool) throws {
    let pair = try Pair(
      client: TLSContext(client: client(.ecdsa, .v1_3)),
      server: TLSContext(server: server(.ecdsa) { $0.sessionTickets = sessionTickets }))
    pair.client.start()
    pair.server.feed(pair.client.takeSent())
    pair.client.feed(pair.server.takeSent())
    #expect(pair.client.completions == 1)
    pair.server.feed(pair.client.takeSent())
    #expect(pair.server.completions == 1)
    // Everything that the client can still receive.
    #expect(pair.server.sent.isEmpty == !sessionTickets)
    pair.exchange()
    #expect(pair.client.connection.receivedTicketCount == (sessionTickets ? 1 : 0))
    #expect(pair.client.received.isEmpty)
  }

  @Test(
    "A client that offers ALPN is accepted if none is configured",
    arguments: TLSVersion.allCases)
  func foreignALPN(version: TLSVersion) throws {
    let pair = try Pair.connected(
      client(.rsa, version) { $0.applicationProtocols = ["h2", "http/1.1"] }, server(.rsa))
    for side in [pair.client, pair.server] {
      #expect(side.connection.isEstablished)
      #expect(side.connection.negotiatedProtocol == nil)
    }
    #expect(pair.server.connection.offeredALPN)
  }

  // MARK: Two identities

  @Test(
    "With two identities each client gets the one that it can verify", arguments: [false, true])
  func twoIdentities(rsaFirst: Bool) throws {
    let configuration = server(.ecdsa) {
      $0.identity = rsaFirst ? certificates.rsaServer : certificates.server
      $0.alternateIdentity = rsaFirst ? certificates.server : certificates.rsaServer
      $0.clientCertificates = .required(
        authoritiesPEM: certificates.authority + certificates.rsaAuthority)
    }
    // This client supports both types, and ECDSA is cheaper.
    for version in TLSVersion.allCases {
      let pair = try Pair.connected(client(.ecdsa, version), configuration)
      #expect(pair.server.connection.isEstablished)
      #expect(pair.client.connection.peerCertificateDER == der(certificates.server))
    }
    // RFC 2246, section 7.4.1.2: ClientHello of TLS 1.0 with TLS_RSA_WITH_AES_128_CBC_SHA alone and no extensions, as
    // from before RFC 4492.
    let side = try Side(TLSContext(server: configuration), TLSBuffers())
    side.feed(
      [0x16, 0x03, 0x01, 0x00, 0x2d, 0x01, 0x00, 0x00, 0x29, 0x03, 0x01]
        + [UInt8](repeating: 0x5a, count: 32) + [0x00, 0x00, 0x02, 0x00, 0x2f, 0x01, 0x00])
    #expect(side.failure == nil)
    try #require(side.sent.count > 100)
    #expect(side.sent.prefix(3) == [0x16, 0x03, 0x01])
    // ServerHello with a session identifier of no bytes, then the cipher.
    #expect(side.sent[5] == 0x02)
    #expect(side.sent[43...45] == [0x00, 0x00, 0x2f])
    #expect(side.sent.contains(der(certificates.rsaServer)))
    #expect(!side.sent.contains(der(certificates.server)))
  }

  @Test("A client without ECDSA is refused if there is only an ECDSA identity")
  func noCommonKind() throws {
    let side = try Side(TLSContext(server: server(.ecdsa)), TLSBuffers())
    side.feed(
      [0x16, 0x03, 0x01, 0x00, 0x2d, 0x01, 0x00, 0x00, 0x29, 0x03, 0x01]
        + [UInt8](repeating: 0x5a, count: 32) + [0x00, 0x00, 0x02, 0x00, 0x2f, 0x01, 0x00])
    #expect(side.failure == .handshakeFailed(reason: "no shared cipher", alert: 40))
  }

  @Test("A second identity with the same type of key, or a mismatched key, is rejected")
  func badAlternate() throws {
    func refusal(_ alternate: TLSIdentity) -> String {
      do {
        _ = try TLSContext(server: server(.ecdsa) { $0.alternateIdentity = alternate })
        return "accepted"
      } catch { return error.description }
    }
    #expect(
      refusal(certificates.namedServer)
        == "alternate server key: has the same type as the first one")
    var mixed = certificates.rsaServer
    mixed.privateKeyPEM = certificates.rsaDevice.privateKeyPEM
    #expect(
      refusal(mixed)
        == "alternate server key does not match the certificate: key values mismatch"
    )
    mixed.privateKeyPEM = certificates.server.privateKeyPEM
    #expect(refusal(mixed) != "accepted")
    #expect(refusal(certificates.rsaServer) == "accepted")
  }
}
