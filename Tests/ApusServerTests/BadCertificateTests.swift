import ApusCore
import ApusLoop
import ApusModel
import ApusServer
import ApusTLS
import ApusTesting
import Testing

@testable import ApusTrust

/// An invalid certificate, and the result of a handshake with it.
struct BadCertificate: CustomTestStringConvertible, Sendable {
  var name: String
  /// The alert that OpenSSL sends; RFC 8446, section 6.2.
  var alert: UInt8
  /// In the audit log.
  var reason: String
  var make: @Sendable (BadCertificates) throws -> TLSIdentity

  var testDescription: String { name }

  static let all: [BadCertificate] = [
    .init(name: "of another authority", alert: 48, reason: "unable to get local issuer certificate")
    { try $0.identity(authority: $0.directory.foreignAuthority) },
    .init(name: "ended", alert: 45, reason: "certificate has expired") {
      try $0.identity(validity: TestDirectory.expired)
    },
    .init(name: "not yet begun", alert: 42, reason: "certificate is not yet valid") {
      try $0.identity(
        validity: Validity(notBefore: $0.now + 86_400, notAfter: $0.now + 2 * 86_400))
    },
    .init(name: "for servers", alert: 43, reason: "unsuitable certificate purpose") {
      try $0.identity { $0.addExtendedKeyUsage(.serverAuth) }
    },
    .init(
      name: "with an unknown critical extension", alert: 46, reason: "unhandled critical extension"
    ) {
      try $0.identity {
        $0.addExtendedKeyUsage(.clientAuth)
        $0.add(OID(1, 3, 6, 1, 4, 1, 99999, 1), critical: true, DER.null)
      }
    },
    .init(name: "with a critical list of topics", alert: 46, reason: "unhandled critical extension")
    {
      try $0.identity {
        $0.addExtendedKeyUsage(.clientAuth)
        $0.add(.pushTopics, critical: true, DER.sequence())
      }
    },
    // OpenSSL's verdict: it finds no issuer of a certificate that it cannot read.
    .init(
      name: "whose constraints are no DER", alert: 48,
      reason: "unable to get local issuer certificate"
    ) {
      try $0.identity {
        $0.addExtendedKeyUsage(.clientAuth)
        $0.add(.basicConstraints, [0x30, 0x80, 0xff])
      }
    },
    .init(
      name: "self-signed under the authority's name", alert: 48,
      reason: "self-signed certificate"
    ) { try $0.impostor() },
    .init(
      name: "signed by an impostor of the authority", alert: 51,
      reason: "certificate signature failure"
    ) { try $0.identity(authority: $0.impostorAuthority()) },
    .init(
      name: "with a signature that was touched", alert: 51, reason: "certificate signature failure"
    ) { try $0.touched() },
    // It has the name of the leaf that signed it.
    .init(
      name: "signed by a leaf of the authority", alert: 48, reason: "self-signed certificate"
    ) { try $0.belowLeaf() },
  ]
}

/// Creates the certificates, for listeners of either authority.
struct BadCertificates {
  let directory: TestDirectory
  let listener: ListenerKind
  var now: Int64 { TestDirectory.nowSeconds }

  var authority: CertificateAuthority {
    listener == .courier ? directory.deviceAuthority : directory.serviceAuthority
  }

  private var subject: Certificate.Subject {
    listener == .courier
      ? .init(
        userID: "0123456789abcdef", commonName: "bad",
        organization: CertificateAuthority.deviceOrganization)
      : .init(userID: TestDirectory.topic, organizationalUnit: directory.team.text)
  }

  func identity(
    validity: Validity? = nil, authority: CertificateAuthority? = nil,
    _ fill: (inout CertificateTemplate) -> Void = { $0.addExtendedKeyUsage(.clientAuth) }
  ) throws -> TLSIdentity {
    let key = try PrivateKey.generateP256()
    var template = try CertificateTemplate(
      subject: subject, validity: validity ?? Validity(now: now, days: 1),
      publicKey: key.publicKey)
    fill(&template)
    template.add(.pushProduction, DER.null)
    let issuer = authority ?? self.authority
    let der = try template.signedDER(issuer: issuer.certificate.subjectDER, by: issuer.key)
    return TLSIdentity(
      certificateChainPEM: Array(PEM.text(label: "CERTIFICATE", der: der).utf8),
      privateKeyPEM: Array(key.pkcs8PEM.utf8))
  }

  /// With the name of the real authority, and its own key.
  func impostorAuthority() throws -> CertificateAuthority {
    try .create(
      commonName: authority.certificate.subject.commonName ?? "",
      validity: Validity(now: now, days: 1))
  }

  func impostor() throws -> TLSIdentity {
    let own = try impostorAuthority()
    return TLSIdentity(own.certificate, own.key)
  }

  func touched() throws -> TLSIdentity {
    let good = try identity()
    let key = try PrivateKey(pem: String(decoding: good.privateKeyPEM, as: UTF8.self))
    var der = try Certificate(pem: String(decoding: good.certificateChainPEM, as: UTF8.self)).der
    der[der.count - 1] ^= 1
    return TLSIdentity(try Certificate(der: der.span), key)
  }

  /// A client certificate has issued another certificate.
  func belowLeaf() throws -> TLSIdentity {
    let leaf = try identity()
    let leafKey = try PrivateKey(pem: String(decoding: leaf.privateKeyPEM, as: UTF8.self))
    let leafPEM = String(decoding: leaf.certificateChainPEM, as: UTF8.self)
    let key = try PrivateKey.generateP256()
    var template = try CertificateTemplate(
      subject: subject, validity: Validity(now: now, days: 1), publicKey: key.publicKey)
    template.addExtendedKeyUsage(.clientAuth)
    template.add(.pushProduction, DER.null)
    let below = try template.signed(
      issuer: Certificate(pem: leafPEM).subjectDER, by: leafKey)
    return TLSIdentity(
      certificateChainPEM: Array((below.pem + leafPEM).utf8),
      privateKeyPEM: Array(key.pkcs8PEM.utf8))
  }
}

@Suite("Invalid certificates at each listener", .timeLimit(.minutes(30)))
struct BadCertificateTests {
  /// Not that for other nodes, which `LinkListenerTests` tries.
  static let listeners = ListenerKind.allCases.filter { $0 != .link }
  let service: TestService

  init() throws { service = try Gateways.service }

  private func end(_ listener: ListenerKind, _ identity: TLSIdentity?) throws -> RawEnd? {
    let protocols: [String] =
      switch listener {
      case .provider, .channels: ["h2"]
      case .courier: [TestService.courierProtocol]
      case .gateway, .feedback, .link: []
      }
    do {
      let client = try service.tls(listener, protocols: protocols, identity: identity)
      return try client.receiveAll().end
    } catch RawFault.ended(let how, _) {
      return how
    }
  }

  @Test(
    "The handshake ends with its alert, and the audit log has the reason and the certificate",
    arguments: listeners)
  func table(listener: ListenerKind) throws {
    let service = try TestService()
    defer { service.stop() }
    let made = BadCertificates(directory: service.directory, listener: listener)
    let audit = AuditLines(service)
    let tests = BadCertificateTests(service)
    // A valid one is accepted, so the refusals below have the expected cause.
    #expect(try tests.isLetIn(listener, made.identity()))
    for bad in BadCertificate.all {
      let identity = try bad.make(made)
      let line = try audit.line("handshake.refused") {
        let end = try tests.end(listener, identity)
        #expect(end == .failed(.alertReceived(bad.alert)), "\(bad.name)")
      }
      #expect(line["reason"] == bad.reason, "\(bad.name)")
      #expect(line["listener"] == "\(listener.rawValue) production")
      #expect(line["sha256"]?.count == 64 && line["issuer"]?.isEmpty == false, "\(bad.name)")
      #expect((line["explanation"]?.count ?? 0) > 20, "\(bad.name)")
      let subject = listener == .courier ? "0123456789abcdef" : TestDirectory.topic
      if bad.name != "self-signed under the authority's name" {
        #expect(line["subject"]?.contains(subject) == true, "\(line)")
      }
    }
  }

  private init(_ service: TestService) { self.service = service }

  /// Whether the service keeps the connection open: its first output shows that.
  private func isLetIn(_ listener: ListenerKind, _ identity: TLSIdentity) throws -> Bool {
    switch listener {
    case .provider, .channels:
      let provider = try service.provider(identity: identity, at: listener)
      try provider.ping()
      return true
    case .courier:
      let client = RawCourierClient(
        try service.tls(
          .courier, protocols: [TestService.courierProtocol], identity: identity))
      try client.send(ConnectedDevice.connectMessage())
      return try client.expect(0x08)[1] == [0]
    case .gateway:
      let client = try service.gateway(.standard, identity: identity)
      try client.send(GatewayFrame.knownBad(1))
      try expectEnd(client, GatewayFrame.packet(2, 1))
      return true
    case .feedback: return try service.feedback(identity: identity).isEmpty
    case .link: return false
    }
  }

  @Test(
    "An overlong chain ends the handshake at little cost", arguments: listeners)
  func hugeChain(listener: ListenerKind) throws {
    let service = try TestService()
    defer { service.stop() }
    let made = BadCertificates(directory: service.directory, listener: listener)
    let tests = BadCertificateTests(service)
    let good = try made.identity()
    // More than 32 KiB of unknown authorities.
    var chain = String(decoding: good.certificateChainPEM, as: UTF8.self)
    for index in 0..<120 {
      chain += try CertificateAuthority.create(
        commonName: "Nobody \(index)", validity: Validity(now: made.now, days: 1)
      ).certificate.pem
    }
    let identity = TLSIdentity(
      certificateChainPEM: Array(chain.utf8), privateKeyPEM: good.privateKeyPEM)
    let line = try AuditLines(service).line("handshake.refused") {
      // illegal_parameter.
      let end = try tests.end(listener, identity)
      #expect(end == .failed(.alertReceived(47)))
    }
    #expect(line["reason"] == "certificates too long")
    #expect(try tests.isLetIn(listener, good))
  }

  @Test(
    "Without a certificate, the listeners that require one refuse the handshake",
    arguments: [ListenerKind.gateway, .feedback])
  func none(listener: ListenerKind) throws {
    let service = try TestService()
    defer { service.stop() }
    let line = try AuditLines(service).line("handshake.refused") {
      let end = try BadCertificateTests(service).end(listener, nil)
      #expect(end == .failed(.alertReceived(116)))
    }
    #expect(line["reason"] == "no certificate")
  }

  @Test("Our authority's certificate without provider rights gets a reason, and is logged")
  func noProvider() throws {
    let service = try TestService()
    defer { service.stop() }
    let directory = service.directory
    let audit = AuditLines(service)
    let twice = try BadCertificates(directory: directory, listener: .provider).identity {
      $0.addExtendedKeyUsage(.clientAuth)
      $0.add(.pushProduction, DER.null)
    }
    let cases: [(TLSIdentity, Reason, String)] = try [
      (
        directory.providerIdentity(environments: .development), .badCertificateEnvironment,
        "other listener"
      ),
      (directory.providerIdentity(topic: TestDirectory.unusableTopic), .badCertificate, "UID"),
      (
        directory.providerIdentity(topics: TestDirectory.brokenTopics), .badCertificate, "extension"
      ),
      (
        directory.device(authority: directory.serviceAuthority).identity, .badCertificate,
        "environment"
      ),
      (twice, .badCertificate, "extension"),
    ]
    for (identity, reason, word) in cases {
      let line = try audit.line("provider.refused") {
        let end = try service.provider(identity: identity).end()
        #expect(
          end.goAways.map(\.debugData) == [#"{"reason":"\#(reason.text)"}"#])
      }
      #expect(line["reason"] == "\(reason.text)")
      #expect(line["explanation"]?.contains(word) == true, "\(line)")
      #expect(line["sha256"]?.count == 64 && line["topic"] != nil && line["team"] != nil)
    }
  }

  @Test("In the connect message a bad certificate gets status 2, and the audit log has the reason")
  func inBand() throws {
    let service = try TestService()
    defer { service.stop() }
    let directory = service.directory
    let audit = AuditLines(service)
    let key = try Shared.rsaKey
    func device(
      _ authority: CertificateAuthority? = nil, _ validity: Validity? = nil,
      _ fill: (inout CertificateTemplate) -> Void = { $0.addExtendedKeyUsage(.clientAuth) }
    ) throws -> TestDevice {
      var template = try CertificateTemplate(
        subject: .init(
          userID: "0123456789abcdef", organization: CertificateAuthority.deviceOrganization),
        validity: validity ?? Validity(now: TestDirectory.nowSeconds, days: 1),
        publicKey: key.publicKey)
      fill(&template)
      let issuer = authority ?? directory.deviceAuthority
      return TestDevice(
        id: DeviceID(1), key: key,
        certificate: try template.signed(issuer: issuer.certificate.subjectDER, by: issuer.key))
    }
    let now = TestDirectory.nowSeconds
    let impostor = try BadCertificates(directory: directory, listener: .courier).impostorAuthority()
    let nonce = TestDevice.nonce()
    let good = try device()
    var broken = try good.signedConnect()
    var unreadable = try CertificateTemplate(
      subject: good.certificate.subject, validity: Validity(now: now, days: 1),
      publicKey: key.publicKey)
    unreadable.add(.basicConstraints, [0x30, 0x80, 0xff])
    broken.fields[2].value = try unreadable.signedDER(
      issuer: directory.deviceAuthority.certificate.subjectDER, by: directory.deviceAuthority.key)
    let cases: [(RawCourierFrame, String)] = try [
      (device(directory.foreignAuthority).signedConnect(), "certificate untrusted"),
      (device(impostor).signedConnect(), "certificate untrusted"),
      (device(nil, TestDirectory.expired).signedConnect(), "certificate expired"),
      (
        device(nil, Validity(notBefore: now + 3600, notAfter: now + 7200)).signedConnect(),
        "certificate notYetValid"
      ),
      (device { $0.addExtendedKeyUsage(.serverAuth) }.signedConnect(), "certificate purpose"),
      (
        device {
          $0.addExtendedKeyUsage(.clientAuth)
          $0.add(OID(1, 3, 6, 1, 4, 1, 99999, 1), critical: true, DER.null)
        }.signedConnect(), "certificate untrusted"
      ),
      (broken, "certificate malformed"),
      (good.signedConnect(nonce: TestDevice.nonce(secondsOff: 301)), "clock"),
      (good.signedConnect(nonce: TestDevice.nonce(secondsOff: -302)), "clock"),
      (
        good.signedConnect(nonce: nonce, signature: [1, 1] + [UInt8](repeating: 0, count: 256)),
        "signature"
      ),
      (good.signedConnect(nonce: Array(nonce.dropLast())), "signature"),
    ]
    for (message, reason) in cases {
      let line = try audit.line("device.refused") { try refuse(message, service) }
      #expect(line["reason"] == reason)
    }
    // The same bytes again.
    let message = try good.signedConnect(nonce: TestDevice.nonce())
    let client = RawCourierClient(
      try service.tls(.courier, protocols: [TestService.inBandProtocol]))
    try client.send(message)
    #expect(try client.expect(0x08)[1] == [0])
    #expect(
      try audit.line("device.refused") { try refuse(message, service) }["reason"] == "replayed")
  }

  private func refuse(_ message: RawCourierFrame, _ service: TestService) throws {
    let client = RawCourierClient(
      try service.tls(.courier, protocols: [TestService.inBandProtocol]))
    try client.send(message)
    #expect(try client.expect(0x08)[1] == [2])
    #expect(try client.end().end == .closeNotify)
  }
}
