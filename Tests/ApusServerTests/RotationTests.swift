import ApusDirectory
import ApusLoop
import ApusModel
import ApusServer
import ApusTLS
import ApusTesting
import ApusTrust
import Testing

/// Keys and authorities are replaced in a running service, and issued tokens and certificates stay valid.
@Suite("Rotation without downtime")
struct RotationTests {
  let service: TestService
  var data: DataDirectory { service.directory.data }
  let now = TestDirectory.nowSeconds

  init() throws { service = try TestService() }

  /// The chain that a client trusting only `root` gets; nil if that client refuses it.
  private func connects(trusting root: Certificate) throws -> Bool {
    do {
      let client = try service.tls(
        .provider, protocols: ["h2"], identity: service.directory.providerIdentity()
      ) { $0.trustRoots = .authorities(PEM: Array(root.pem.utf8)) }
      let provider = RawHTTP2Client(client)
      try provider.begin()
      try provider.ping()
      return true
    } catch RawFault.ended(.failed(.certificateRejected), _) {
      return false
    }
  }

  private func push(_ token: String) throws -> Int? {
    let headers = try service.pushHeaders(to: token, authorization: service.authorization())
    return try service.provider().exchange(headers, body: TestService.payload).status
  }

  @Test(
    "A replaced service certificate is used for new handshakes, and connections stay")
  func server() throws {
    defer { service.stop() }
    let open = try service.connect()
    let before = try Certificate(pem: Files.readText(data.serverFiles.certificate))
    try data.rotateServer(nowSeconds: now)
    service.service.reload()
    let after = try Certificate(pem: Files.readText(data.serverFiles.certificate))
    #expect(before.spkiDER != after.spkiDER)
    #expect(after.serverNames == ["localhost", "127.0.0.1", "::1"])
    let client = try service.tls(.provider, protocols: ["h2"])
    #expect(client.peerCertificateDER == after.der)
    try open.settle()
  }

  @Test("Devices of both authorities are accepted until the old one is dropped")
  func devices() throws {
    defer { service.stop() }
    let old = try service.directory.device()
    _ = try service.connect(old)
    let successor = try data.rotateAuthority(.devices, nowSeconds: now)
    #expect(successor.subject.commonName == "Apus device authority 2")
    service.service.reload()
    let new = try service.directory.device(authority: data.authority(.devices))
    _ = try service.connect(old)
    let inBand = try service.courier(protocols: [TestService.inBandProtocol])
    try inBand.send(
      service.directory.device(rsaBits: 2048, authority: data.authority(.devices)).signedConnect())
    #expect(try inBand.expect(0x08)[1] == [0])
    let connected = try service.connect(new)

    let dropped = try data.finishRotation(of: .devices, nowSeconds: now)
    #expect(dropped.dropped == [service.directory.deviceAuthority.certificate])
    service.service.reload()
    try connected.settle()
    _ = try service.connect(new)
    // RFC 8446, section 6.2: unknown_ca.
    let end = try service.tls(
      .courier, protocols: [TestService.courierProtocol], identity: old.identity
    ).receiveAll().1
    #expect(end == .failed(.alertReceived(48)))
  }

  @Test(
    "Clients of either service authority work until the old one is dropped")
  func serviceAuthority() throws {
    defer { service.stop() }
    let old = service.directory.serviceAuthority.certificate
    #expect(try connects(trusting: old))
    let new = try data.rotateAuthority(.service, nowSeconds: now)
    service.service.reload()
    #expect(try connects(trusting: old))
    #expect(try connects(trusting: new))
    _ = try data.finishRotation(of: .service, nowSeconds: now)
    service.service.reload()
    // The provider's certificate is of the old authority, but the server's own certificate is checked first.
    #expect(try !connects(trusting: old))
    #expect(throws: DirectoryProblem.self) {
      try data.finishRotation(of: .service, nowSeconds: now)
    }
  }

  @Test("After a sealing key rotation old tokens stay valid, and new ones use the new key")
  func sealingKey() throws {
    defer { service.stop() }
    let device = try service.connect()
    try device.enable(TestDirectory.topic)
    let old = try device.token()
    #expect(old.hasPrefix("01"))
    #expect(try data.rotateSealingKey() == 2)
    service.service.reload()
    #expect(try push(old) == 200)
    try device.acknowledge(device.notification())
    let again = try service.connect(device.device)
    try again.enable(TestDirectory.topic)
    let new = try again.token()
    #expect(new.hasPrefix("02"))
    for token in [old, new] {
      #expect(try push(token) == 200)
      try again.acknowledge(again.notification())
    }
    // The same device and app use the same mailbox slot, so nothing is delivered twice.
    #expect(try data.rotateSealingKey() == 3)
  }

  @Test(
    "An operator's own authority takes over, with its key in the directory or elsewhere",
    arguments: [true, false])
  func outside(isKeyHere: Bool) throws {
    defer { service.stop() }
    let root = try CertificateAuthority.create(
      commonName: "Outside", validity: Validity(now: now, days: 10))
    let child = try CertificateAuthority.create(
      commonName: "Push", validity: Validity(now: now, days: 10))
    let (own, key) = (
      try root.crossSign(child, validity: Validity(now: now, days: 5)), child.key
    )
    let outside = OutsideAuthority(
      certificatesPEM: own.pem + root.certificate.pem, keyPEM: isKeyHere ? key.pkcs8PEM : nil)
    #expect(try connects(trusting: service.directory.serviceAuthority.certificate))
    _ = try data.rotateAuthority(.service, to: outside, nowSeconds: now)
    #expect(data.clientAuthorityFile.hasSuffix("service-above.crt"))
    if !isKeyHere {
      let issuing = try CertificateAuthority(certificate: own, key: key)
      for name in ["server", "server-rsa"] {
        let request = try CertificateRequest(
          file: Files.read("\(data.path)/server/\(name).csr"))
        let certificate = try issuing.issueServer(
          names: ["localhost"], publicKey: request.publicKey,
          validity: Validity(now: now, days: 1))
        #expect(
          try data.importCertificate(pem: certificate.pem, nowSeconds: now).isOwn)
        // No rotation is pending any more.
        #expect(throws: DirectoryProblem.self) {
          try data.importCertificate(pem: certificate.pem, nowSeconds: now)
        }
      }
    }
    service.service.reload()
    #expect(try connects(trusting: root.certificate))
    // A provider of the older authority is accepted until that authority is dropped.
    _ = try data.finishRotation(of: .service, nowSeconds: now)
    service.service.reload()
    #expect(throws: (any Error).self) { try connects(trusting: root.certificate) }
  }
}
