import ApusTLS
import Testing

@Suite("Identity of a connection")
struct ConnectionIdentityTests {
  let certificates: TestCertificates

  init() throws { certificates = try TestCertificates.make() }

  /// Connections of several clients with one context, which has no identity.
  private func connect(
    _ identities: [TLSIdentity], sessions: [TLSSession?] = [], version: TLSVersion
  ) throws -> [Pair] {
    let client = try TLSContext(
      client: certificates.clientConfiguration {
        $0.identity = nil
        $0.maximumVersion = version
      })
    let server = try TLSContext(
      server: certificates.serverConfiguration {
        $0.clientCertificates = .required(authoritiesPEM: certificates.authority)
      })
    return try identities.indices.map { index in
      let pair = try Pair(
        client: client, server: server, session: sessions.isEmpty ? nil : sessions[index])
      try pair.client.connection.use(identity(identities[index]))
      pair.client.start()
      pair.exchange()
      return pair
    }
  }

  private func identity(_ identity: TLSIdentity) throws -> TLSConnectionIdentity {
    TLSConnectionIdentity(
      certificateDER: der(identity), key: try TLSIdentityKey(PEM: identity.privateKeyPEM))
  }

  @Test("Each client has its own identity under one context", arguments: [TLSVersion.v1_2, .v1_3])
  func own(version: TLSVersion) throws {
    // The server's certificate is not a client's, and only its own handshake fails.
    let identities = [certificates.device, certificates.server, certificates.device]
    let pairs = try connect(identities, version: version)
    for (pair, isDevice) in zip(pairs, [true, false, true]) {
      #expect(pair.server.connection.isEstablished == isDevice)
      guard isDevice else { continue }
      #expect(pair.server.connection.peerCertificateDER == der(certificates.device))
      pair.client.connection.dropIdentity()
      try pair.client.write([1, 2, 3])
      try pair.server.write([4])
      pair.exchange()
      #expect(pair.server.received == [1, 2, 3])
      #expect(pair.client.received == [4])
    }
  }

  @Test("A damaged certificate, or one of another key, is rejected before the handshake")
  func mismatch() throws {
    let context = try TLSContext(
      client: certificates.clientConfiguration { $0.identity = nil })
    var wrong = try identity(certificates.device)
    wrong.certificateDER = der(certificates.server)
    #expect(throws: TLSError.self) { try TLSConnection(context: context).use(wrong) }
    wrong.certificateDER = [0x30, 0x03, 0x02]
    #expect(throws: TLSError.self) { try TLSConnection(context: context).use(wrong) }
  }
}
