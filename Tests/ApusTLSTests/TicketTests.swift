import Testing

@testable import ApusTLS

@Suite("TLS session tickets")
struct TicketTests {
  let certificates: TestCertificates

  init() throws { certificates = try TestCertificates.make() }

  private func client(_ version: TLSVersion = .v1_3, device: Bool = false) -> TLSClientConfiguration
  {
    certificates.clientConfiguration {
      $0.maximumVersion = version
      if device { $0.identity = certificates.device }
    }
  }

  private func server(
    _ keys: TicketKeys, _ change: (inout TLSServerConfiguration) -> Void = { _ in }
  ) -> TLSServerConfiguration {
    certificates.serverConfiguration {
      $0.ticketKeys = keys
      change(&$0)
    }
  }

  @Test("One ticket follows a handshake under TLS 1.3, in one record")
  func oneTicket() throws {
    let pair = try Pair(
      client: TLSContext(client: client()),
      server: TLSContext(server: certificates.serverConfiguration()))
    pair.client.start()
    pair.server.feed(pair.client.takeSent())
    pair.client.feed(pair.server.takeSent())
    pair.server.feed(pair.client.takeSent())
    // RFC 8446, section 5.2: application_data, version 3.3, length.
    let bytes = pair.server.sent
    #expect(bytes.prefix(3) == [0x17, 0x03, 0x03])
    #expect(bytes.count == 5 + Int(bytes[3]) << 8 + Int(bytes[4]))
    pair.exchange()
    #expect(pair.client.connection.receivedTicketCount == 1)
    #expect(pair.client.connection.session?.ticketLifetimeSeconds == 24 * 3600)
  }

  @Test("Without tickets a server sends nothing after the handshake, and resumes nothing")
  func noTickets() throws {
    for version in [TLSVersion.v1_2, .v1_3] {
      let configuration = certificates.serverConfiguration { $0.sessionTickets = false }
      let pair = try Pair(
        client: TLSContext(client: client(version)), server: TLSContext(server: configuration))
      pair.client.start()
      pair.server.feed(pair.client.takeSent())
      pair.client.feed(pair.server.takeSent())
      pair.server.feed(pair.client.takeSent())
      if version == .v1_3 { #expect(pair.server.sent.isEmpty) }
      pair.exchange()
      #expect(pair.client.connection.isEstablished)
      #expect(pair.client.connection.receivedTicketCount == 0)
      #expect(pair.client.connection.session == nil)
    }
  }

  @Test("A client that keeps no sessions gets none")
  func keepsNone() throws {
    let pair = try Pair.connected(
      certificates.clientConfiguration { $0.keepsSessions = false },
      certificates.serverConfiguration())
    #expect(pair.client.connection.isEstablished)
    #expect(pair.client.connection.session == nil)
  }

  @Test(
    "A session is resumed by any worker, with the client's certificate",
    arguments: [TLSVersion.v1_2, .v1_3])
  func resumption(version: TLSVersion) throws {
    let keys = TicketKeys()
    let configuration = server(keys) {
      $0.clientCertificates = .requested(authoritiesPEM: certificates.authority)
      $0.serverNameIdentities = ["named.example.com": certificates.namedServer]
    }
    let device = client(version, device: true)
    let first = try Pair.connected(device, configuration)
    #expect(first.client.connection.receivedTicketCount == 1)
    let second = try Pair.connected(device, configuration, session: first.client.connection.session)
    for side in [second.client, second.server] { #expect(side.connection.isResumed) }
    #expect(second.server.connection.peerCertificateDER == der(certificates.device))
    // RFC 8446, appendix C.4: a ticket is used once, so there is a new one. Under TLS 1.2 the old one stays valid.
    #expect(second.client.connection.receivedTicketCount == (version == .v1_3 ? 1 : 0))
    try second.client.write(pattern(10))
    try second.server.write(pattern(20))
    second.exchange()
    #expect(second.server.received == pattern(10))
    #expect(second.client.received == pattern(20))

    // With the identity of a name, which has another context.
    let named = certificates.clientConfiguration {
      $0.maximumVersion = version
      $0.identity = certificates.device
      $0.serverName = "named.example.com"
    }
    let third = try Pair.connected(named, configuration)
    let fourth = try Pair.connected(named, configuration, session: third.client.connection.session)
    #expect(fourth.server.connection.isResumed)
    #expect(fourth.client.connection.peerCertificateDER == der(certificates.namedServer))
  }

  @Test("A ticket survives two rotations and is renewed", arguments: [TLSVersion.v1_2, .v1_3])
  func rotation(version: TLSVersion) throws {
    let keys = TicketKeys()
    let configuration = server(keys)
    let first = try Pair.connected(client(version), configuration)
    keys.rotate()
    let second = try Pair.connected(
      client(version), configuration, session: first.client.connection.session)
    #expect(second.server.connection.isResumed)
    #expect(second.client.connection.receivedTicketCount == 1)
    keys.rotate()
    let third = try Pair.connected(
      client(version), configuration, session: first.client.connection.session)
    #expect(third.server.connection.isResumed)
    keys.rotate()
    // Three rotations: the first ticket's key is gone, the renewed one's is not.
    let fourth = try Pair.connected(
      client(version), configuration, session: first.client.connection.session)
    #expect(fourth.server.connection.isEstablished)
    #expect(!fourth.server.connection.isResumed)
    #expect(fourth.client.connection.receivedTicketCount == 1)
    let fifth = try Pair.connected(
      client(version), configuration, session: second.client.connection.session)
    #expect(fifth.server.connection.isResumed)
  }

  @Test("Another process's ticket leads to a full handshake", arguments: [TLSVersion.v1_2, .v1_3])
  func foreignTicket(version: TLSVersion) throws {
    let first = try Pair.connected(client(version), server(TicketKeys()))
    let second = try Pair.connected(
      client(version), server(TicketKeys()), session: first.client.connection.session)
    #expect(second.server.connection.isEstablished)
    #expect(!second.server.connection.isResumed)
  }

  @Test("Keys come from the given source")
  func ownRandomness() throws {
    let same: @Sendable (Int) -> [UInt8] = { pattern($0) }
    let first = try Pair.connected(client(), server(TicketKeys(random: same)))
    let second = try Pair.connected(
      client(), server(TicketKeys(random: same)), session: first.client.connection.session)
    #expect(second.server.connection.isResumed)
    // RFC 5077, section 4: a ticket begins with its key's name.
    #expect(first.client.connection.session?.ticket.prefix(16) == pattern(16)[...])
  }

  @Test(
    "A certificate that has expired since is not resumed but rejected",
    arguments: [TLSVersion.v1_2, .v1_3])
  func expiredSince(version: TLSVersion) throws {
    let keys = TicketKeys()
    let device = client(version, device: true)
    let first = try Pair.connected(
      device,
      server(keys) { $0.clientCertificates = .requested(authoritiesPEM: certificates.authority) })
    #expect(first.server.connection.isEstablished)
    let later = server(keys) {
      $0.clientCertificates = .requested(authoritiesPEM: certificates.authority)
      $0.verificationTime = 32_503_680_000
    }
    let second = try Pair.connected(device, later, session: first.client.connection.session)
    #expect(second.server.failure == .certificateRejected("certificate has expired"))
    #expect(second.client.failure == .alertReceived(45))
  }

  @Test(
    "A session is not resumed by a listener with other authorities or protocols",
    arguments: [TLSVersion.v1_2, .v1_3])
  func scope(version: TLSVersion) throws {
    let keys = TicketKeys()
    let device = client(version, device: true)
    let first = try Pair.connected(
      device,
      server(keys) { $0.clientCertificates = .requested(authoritiesPEM: certificates.authority) })
    let elsewhere = try Pair.connected(
      device,
      server(keys) {
        $0.clientCertificates = .requested(authoritiesPEM: certificates.otherAuthority)
      }, session: first.client.connection.session)
    #expect(!elsewhere.server.connection.isEstablished)
    #expect(elsewhere.client.failure == .alertReceived(48))

    let other = try Pair.connected(
      device,
      server(keys) {
        $0.clientCertificates = .requested(authoritiesPEM: certificates.authority)
        $0.applicationProtocols = ["h2"]
      }, session: first.client.connection.session)
    #expect(other.server.connection.isEstablished)
    #expect(!other.server.connection.isResumed)
  }
}
