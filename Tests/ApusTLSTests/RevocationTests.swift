import ApusTLS
import COpenSSL
import Synchronization
import Testing

/// The questions to a server, and its answers: a snapshot that is replaced while contexts use it.
private final class RevocationList: Sendable {
  private let revoked: Mutex<Set<[UInt8]>>
  private let questions = Mutex<[[UInt8]]>([])

  init(_ revoked: [TLSIdentity] = []) { self.revoked = Mutex(Set(revoked.map(digest))) }

  /// The questions since the last call.
  func takeQuestions() -> [[UInt8]] {
    questions.withLock { questions in
      defer { questions = [] }
      return questions
    }
  }

  func swap(_ identities: [TLSIdentity]) { swap(digests: identities.map(digest)) }

  func swap(digests: [[UInt8]]) { revoked.withLock { $0 = Set(digests) } }

  var check: TLSServerConfiguration.RevocationCheck {
    { sha256 in
      let asked = sha256.indices.map { sha256[$0] }
      self.questions.withLock { $0.append(asked) }
      return self.revoked.withLock { $0.contains(asked) }
    }
  }
}

private func digest(_ identity: TLSIdentity) -> [UInt8] {
  let bytes = der(identity)
  var digest = [UInt8](repeating: 0, count: 32)
  SHA256(bytes, bytes.count, &digest)
  return digest
}

/// The SHA-256 of the issuer's name and the serial number as encoded in the certificate.
private func placeDigest(_ identity: TLSIdentity) -> [UInt8] {
  let bytes = der(identity)
  var digest = [UInt8](repeating: 0, count: 32)
  bytes.withUnsafeBufferPointer { buffer in
    var cursor = buffer.baseAddress
    let certificate = d2i_X509(nil, &cursor, buffer.count)
    defer { X509_free(certificate) }
    var name: UnsafeMutablePointer<UInt8>?
    let nameCount = i2d_X509_NAME(X509_get_issuer_name(certificate), &name)
    defer { CRYPTO_free(name, nil, 0) }
    let serial = X509_get0_serialNumber(certificate)
    let whole =
      Array(UnsafeBufferPointer(start: name, count: Int(nameCount)))
      + Array(
        UnsafeBufferPointer(
          start: ASN1_STRING_get0_data(serial), count: Int(ASN1_STRING_length(serial))))
    SHA256(whole, whole.count, &digest)
  }
  return digest
}

@Suite("TLS revocation")
struct RevocationTests {
  let certificates: TestCertificates

  init() throws { certificates = try TestCertificates.make() }

  private func client(_ version: TLSVersion, _ identity: TLSIdentity?) -> TLSClientConfiguration {
    certificates.clientConfiguration {
      $0.minimumVersion = version
      $0.maximumVersion = version
      $0.identity = identity
    }
  }

  private func server(
    _ list: RevocationList, _ change: (inout TLSServerConfiguration) -> Void = { _ in }
  ) -> TLSServerConfiguration {
    certificates.serverConfiguration {
      $0.minimumVersion = .v1_0
      $0.clientCertificates = .requested(authoritiesPEM: certificates.authority)
      $0.isRevoked = list.check
      change(&$0)
    }
  }

  /// Both digests of a certificate, in the order of the questions.
  private func names(_ identity: TLSIdentity) -> [[UInt8]] {
    [digest(identity), placeDigest(identity)]
  }

  @Test("Issuer and serial number revoke too, including sessions", arguments: TLSVersion.allCases)
  func revokedByPlace(version: TLSVersion) throws {
    let list = RevocationList()
    let configuration = server(list) { $0.ticketKeys = TicketKeys() }
    let device = client(version, certificates.device)
    let first = try Pair.connected(device, configuration)
    list.swap(digests: [placeDigest(certificates.device)])
    expectRefused(try Pair.connected(device, configuration))
    guard version >= .v1_2 else { return }
    let session = try #require(first.client.connection.session)
    expectRefused(try Pair.connected(device, configuration, session: session))
  }

  private func expectRefused(_ pair: Pair) {
    #expect(pair.server.failure == .certificateRejected("certificate revoked"))
    #expect(pair.server.completions == 0)
    #expect(!pair.server.connection.isEstablished)
    // RFC 8446, section 6.2: certificate_revoked.
    #expect(pair.client.failure == .alertReceived(44))
  }

  @Test(
    "A revoked certificate ends the handshake with certificate_revoked",
    arguments: TLSVersion.allCases)
  func revoked(version: TLSVersion) throws {
    let list = RevocationList([certificates.device])
    let pair = try Pair.connected(client(version, certificates.device), server(list))
    expectRefused(pair)
    // RFC 8446, section 2: under TLS 1.3 the client is done before the server has seen its certificate.
    #expect(pair.client.completions == (version == .v1_3 ? 1 : 0))
    #expect(list.takeQuestions() == [digest(certificates.device)])
  }

  @Test(
    "Another certificate's revocation has no effect, and each digest is asked about once",
    arguments: TLSVersion.allCases)
  func notRevoked(version: TLSVersion) throws {
    let list = RevocationList([certificates.server, certificates.deviceOfOtherAuthority])
    let pair = try Pair.connected(client(version, certificates.device), server(list))
    #expect(pair.server.connection.isEstablished && pair.client.connection.isEstablished)
    #expect(pair.server.connection.peerCertificateDER == der(certificates.device))
    #expect(list.takeQuestions() == names(certificates.device))
  }

  @Test("Nothing is asked about a missing certificate, or one that is rejected anyway")
  func noQuestion() throws {
    for version in [TLSVersion.v1_2, .v1_3] {
      let list = RevocationList([certificates.expiredDevice])
      let absent = try Pair.connected(client(version, nil), server(list))
      #expect(absent.server.connection.isEstablished)
      let expired = try Pair.connected(client(version, certificates.expiredDevice), server(list))
      #expect(expired.server.failure == .certificateRejected("certificate has expired"))
      #expect(expired.client.failure == .alertReceived(45))
      #expect(list.takeQuestions() == [])
    }
  }

  @Test(
    "The list may change between two handshakes of one listener",
    arguments: [TLSVersion.v1_2, .v1_3])
  func swapped(version: TLSVersion) throws {
    let list = RevocationList()
    let context = try TLSContext(server: server(list) { $0.sessionTickets = false })
    let device = try TLSContext(client: client(version, certificates.device))
    func handshake() throws -> Pair {
      let pair = try Pair(client: device, server: context)
      pair.client.start()
      pair.exchange()
      return pair
    }
    #expect(try handshake().server.connection.isEstablished)
    list.swap([certificates.device])
    expectRefused(try handshake())
    list.swap([])
    #expect(try handshake().server.connection.isEstablished)
  }

  @Test(
    "Only the client's own certificate of a chain is asked about",
    arguments: [TLSVersion.v1_2, .v1_3])
  func chain(version: TLSVersion) throws {
    let leaf = certificates.deviceByIntermediate
    let issuer = TLSIdentity(certificateChainPEM: certificates.intermediate, privateKeyPEM: [])
    let authority = TLSIdentity(certificateChainPEM: certificates.authority, privateKeyPEM: [])
    let list = RevocationList([issuer, authority])
    let pair = try Pair.connected(client(version, leaf), server(list))
    #expect(pair.server.connection.isEstablished)
    #expect(list.takeQuestions() == names(leaf))
    list.swap([leaf])
    expectRefused(try Pair.connected(client(version, leaf), server(list)))
  }

  @Test(
    "A revoked certificate's session is not resumed but rejected",
    arguments: [TLSVersion.v1_2, .v1_3])
  func resumption(version: TLSVersion) throws {
    let list = RevocationList()
    let configuration = server(list) { $0.ticketKeys = TicketKeys() }
    let device = client(version, certificates.device)
    let first = try Pair.connected(device, configuration)
    let session = try #require(first.client.connection.session)
    #expect(list.takeQuestions() == names(certificates.device))

    let second = try Pair.connected(device, configuration, session: session)
    #expect(second.server.connection.isResumed)
    #expect(list.takeQuestions() == names(certificates.device))

    list.swap([certificates.device])
    let third = try Pair.connected(device, configuration, session: session)
    expectRefused(third)
    #expect(!third.server.connection.isResumed)
    // For the ticket, then for the full handshake that replaced it.
    #expect(list.takeQuestions().count == 2)
  }

  @Test(
    "A ticket from a listener without a list is judged by the listener that has one",
    arguments: [TLSVersion.v1_2, .v1_3])
  func sharedTicketKeys(version: TLSVersion) throws {
    let list = RevocationList([certificates.device])
    let configuration = server(list) { $0.ticketKeys = TicketKeys() }
    var careless = configuration
    careless.isRevoked = nil
    let device = client(version, certificates.device)
    let first = try Pair.connected(device, careless)
    let session = try #require(first.client.connection.session)
    expectRefused(try Pair.connected(device, configuration, session: session))
  }

  @Test(
    "The identity of a name rejects revoked certificates too", arguments: [TLSVersion.v1_2, .v1_3])
  func serverName(version: TLSVersion) throws {
    let list = RevocationList([certificates.device])
    let configuration = server(list) {
      $0.serverNameIdentities = ["named.example.com": certificates.namedServer]
    }
    var device = client(version, certificates.device)
    device.serverName = "named.example.com"
    expectRefused(try Pair.connected(device, configuration))
    list.swap([])
    #expect(try Pair.connected(device, configuration).server.connection.isEstablished)
  }

  @Test("The list lives as long as the context", arguments: [TLSVersion.v1_2, .v1_3])
  func lifetime(version: TLSVersion) throws {
    weak var released: RevocationList?
    do {
      let context: TLSContext
      do {
        let list = RevocationList([certificates.device])
        released = list
        context = try TLSContext(server: server(list))
      }
      #expect(released != nil)
      let pair = try Pair(
        client: TLSContext(client: client(version, certificates.device)), server: context)
      pair.client.start()
      pair.exchange()
      expectRefused(pair)
    }
    #expect(released == nil)
  }
}

@Suite("TLS clients that must have a certificate")
struct RequiredCertificateTests {
  let certificates: TestCertificates

  init() throws { certificates = try TestCertificates.make() }

  private func connect(
    _ identity: TLSIdentity?, _ version: TLSVersion, _ server: TLSServerConfiguration? = nil,
    session: TLSSession? = nil
  ) throws -> Pair {
    try Pair.connected(
      certificates.clientConfiguration {
        $0.minimumVersion = version
        $0.maximumVersion = version
        $0.identity = identity
      }, server ?? required(), session: session)
  }

  private func required(_ keys: TicketKeys? = nil) -> TLSServerConfiguration {
    certificates.serverConfiguration {
      $0.minimumVersion = .v1_0
      $0.clientCertificates = .required(authoritiesPEM: certificates.authority)
      $0.ticketKeys = keys
    }
  }

  // RFC 8446, section 4.4.2.4: certificate_required; RFC 5246, section 7.4.6: handshake_failure.
  @Test(
    "A missing certificate ends the handshake with the alert of the version",
    arguments: [(TLSVersion.v1_0, UInt8(40)), (.v1_1, 40), (.v1_2, 40), (.v1_3, 116)])
  func absent(version: TLSVersion, alert: UInt8) throws {
    let pair = try connect(nil, version)
    #expect(
      pair.server.failure
        == .handshakeFailed(reason: "peer did not return a certificate", alert: alert))
    #expect(pair.server.completions == 0)
    #expect(pair.client.failure == .alertReceived(alert))
  }

  @Test("A certificate of the authority is accepted", arguments: TLSVersion.allCases)
  func present(version: TLSVersion) throws {
    let pair = try connect(certificates.device, version)
    #expect(pair.server.connection.isEstablished && pair.client.connection.isEstablished)
    #expect(pair.server.connection.version == version)
    #expect(pair.server.connection.peerCertificateDER == der(certificates.device))
  }

  @Test("A certificate of another authority is rejected", arguments: TLSVersion.allCases)
  func foreign(version: TLSVersion) throws {
    let pair = try connect(certificates.deviceOfOtherAuthority, version)
    #expect(
      pair.server.failure == .certificateRejected("unable to get local issuer certificate"))
    #expect(pair.client.failure == .alertReceived(48))
  }

  @Test(
    "A session without a certificate cannot be resumed where one is required",
    arguments: [TLSVersion.v1_2, .v1_3])
  func scope(version: TLSVersion) throws {
    let keys = TicketKeys()
    var requested = required(keys)
    requested.clientCertificates = .requested(authoritiesPEM: certificates.authority)
    for identity in [nil, certificates.device] {
      let first = try connect(identity, version, requested)
      let session = try #require(first.client.connection.session)
      let same = try connect(identity, version, requested, session: session)
      #expect(same.server.connection.isResumed)
      let elsewhere = try connect(identity, version, required(keys), session: session)
      #expect(!elsewhere.server.connection.isResumed)
      #expect(elsewhere.server.connection.isEstablished == (identity != nil))
    }
  }
}
