import ApusDirectory
import ApusLog
import ApusModel
import ApusServer
import ApusTLS
import ApusTesting
import ApusTrust
import Testing

@Suite("Certificates are renewed over the device's own connection", .timeLimit(.minutes(30)))
struct RenewalTests {
  let service: TestService
  var directory: TestDirectory { service.directory }

  init() throws { service = try TestService() }

  private func renew(_ device: ConnectedDevice, _ request: [UInt8]) throws -> RawCourierFrame {
    try device.client.send(RawCourierFrame(0x83, (0x41, request)))
    return try device.client.expect(0x84)
  }

  private func device(_ answer: RawCourierFrame, key: PrivateKey) throws -> TestDevice {
    #expect(answer[0x40] == [0], "\(answer.reason)")
    let der = answer[0x43] ?? []
    let certificate = try Certificate(der: der.span)
    #expect(certificate.spkiDER == key.publicKey.spkiDER)
    return TestDevice(
      id: try DeviceCertificate(certificate).deviceID, key: key, certificate: certificate)
  }

  @Test(
    "With the same or a new key the device keeps its identity, and its tokens stay valid",
    arguments: [false, true])
  func renewed(hasNewKey: Bool) throws {
    let old = try directory.agedDevice()
    let first = try service.connect(old)
    let token = try first.token()
    try first.enable(TestDirectory.topic)

    let key = try hasNewKey ? PrivateKey.generateP256() : old.key
    let new = try device(renew(first, CertificateRequest.make(for: key)), key: key)
    #expect(new.id == old.id)
    #expect(new.certificate.notAfter > old.certificate.notAfter)
    #expect(new.certificate.subject.commonName == "test device")
    // The connection continues unaffected.
    try first.settle()

    for _ in 0..<2 {
      let again = try service.connect(new)
      #expect(again.baseToken == first.baseToken)
      #expect(try again.token() == token)
      try again.enable(TestDirectory.topic)
      let provider = try service.provider()
      let stream = try provider.request(
        service.pushHeaders(to: token, authorization: service.authorization()),
        body: TestService.payload)
      try again.acknowledge(again.notification())
      #expect(try provider.response(to: stream).status == 200)
    }
  }

  @Test(
    "A replaced key is valid until the new one is used, and not afterwards, even after a restart"
  )
  func superseded() throws {
    let service = try TestService(nil, .init { $0.isEphemeral = false })
    let old = try service.directory.agedDevice()
    let first = try service.connect(old)
    let newKey = try PrivateKey.generateP256()
    let new = try device(renew(first, CertificateRequest.make(for: newKey)), key: newKey)
    first.client.tls.reset()
    // The device may have lost the answer.
    let again = try service.connect(old)
    #expect(again.baseToken == first.baseToken)
    again.client.tls.reset()
    let fresh = try service.connect(new)
    #expect(fresh.baseToken == first.baseToken)
    // Its answer waits for the record.
    _ = try fresh.token()

    func expectRefused(by service: TestService) throws {
      let copy = try service.courier(old)
      try copy.send(ConnectedDevice.connectMessage())
      #expect(try copy.expect(0x08)[1] == [2])
      _ = try copy.end()
    }
    try expectRefused(by: service)
    // The device itself is not affected.
    try fresh.settle()
    service.stop()
    let restarted = try TestService(service.directory, .init { $0.isEphemeral = false })
    defer { restarted.stop() }
    try expectRefused(by: restarted)
    #expect(try restarted.connect(new).baseToken == first.baseToken)
  }

  @Test("A new certificate cannot be renewed yet, and its device is told when")
  func early() throws {
    let now = TestDirectory.nowSeconds
    let young = try directory.device(
      validity: Validity(notBefore: now - 59 * 86_400, notAfter: now + 31 * 86_400))
    let answer = try renew(service.connect(young), CertificateRequest.make(for: young.key))
    answer.expectRefused(7)
    #expect((86_000...86_400).contains(try #require(answer.retrySeconds)))
    let due = try directory.device(
      validity: Validity(notBefore: now - 61 * 86_400, notAfter: now + 29 * 86_400))
    #expect(
      try renew(service.connect(due), CertificateRequest.make(for: due.key))[0x40] == [0])
  }

  @Test(
    "During a rotation every device is told to renew immediately, connected or not")
  func advised() throws {
    let service = try TestService(nil, .init { $0.isEphemeral = false })
    let (directory, data) = (service.directory, service.directory.data)
    defer { service.stop() }
    let day: Int64 = 86_400
    let now = TestDirectory.nowSeconds
    let young = Validity(notBefore: now - day, notAfter: now + 300 * day)
    let devices = try (0..<3).map { _ in try directory.device(validity: young) }
    let online = try service.connect(devices[0])
    try online.enable(TestDirectory.topic)
    let gone = try service.connect(devices[2])
    _ = try gone.token()
    // In an earlier second than any certificate of the new authority.
    _ = try data.rotateAuthority(.devices, nowSeconds: now - 60)
    service.service.reload()

    // After the answer to its next frame.
    try online.client.send(RawCourierFrame(0x0f, (1, [0, 0])))
    _ = try online.client.expect(0x10)
    #expect(try online.client.expect(0x85)[0x44]?.count == 4)
    let late = try service.connect(devices[1])
    #expect(try late.client.expect(0x85)[0x44]?.count == 4)
    let others = try ConnectedDevice(
      service.courier(devices[1], protocols: [TestService.oldCourierProtocol]), devices[1])
    try others.settle()

    let answer = try renew(online, CertificateRequest.make(for: devices[0].key))
    let renewed = try device(answer, key: devices[0].key)
    #expect(try data.devicesOfOlderAuthority().contains(devices[0].id))
    // It must reconnect with the new certificate, although the old one is still valid.
    let reason = try online.client.expect(0x80, deadline: Deadline(seconds: 60))[0x40] ?? []
    #expect(String(decoding: reason, as: UTF8.self).contains("newer certificate"))
    let again = try service.connect(renewed)
    #expect(again.baseToken == online.baseToken)
    // Its answer waits for the record.
    _ = try again.token()
    let left = try data.devicesOfOlderAuthority()
    #expect(Set(left) == [devices[1].id, devices[2].id])
    // A certificate of the new authority counts as new.
    try renew(again, CertificateRequest.make(for: devices[0].key)).expectRefused(7)
    try data.retire(devices[2].id, nowSeconds: now)
    #expect(try data.devicesOfOlderAuthority() == [devices[1].id])
    // Refused, as a protection against mistakes.
    #expect(throws: DevicesWithoutCertificate.self) {
      try data.finishRotation(of: .devices, nowSeconds: now)
    }
    let finished = try data.finishRotation(of: .devices, locksOut: true, nowSeconds: now)
    #expect(finished.lockedOut == [devices[1].id])
    #expect(try data.devicesOfOlderAuthority().isEmpty)
    service.service.reload()
    _ = try service.connect(renewed)
  }

  @Test("Requests without a valid proof, and too many requests, are rejected")
  func bad() throws {
    let device = try directory.agedDevice()
    try withBystanders(service) {
      let connected = try service.connect(device)
      var forged = try CertificateRequest.make(for: device.key)
      forged[forged.count - 1] ^= 1
      try renew(connected, forged).expectRefused(2)
      for _ in 1..<Limits.renewalsPerConnection { _ = try renew(connected, forged) }
      let answer = try renew(connected, CertificateRequest.make(for: device.key))
      answer.expectRefused(3)
      #expect(try #require(answer.retrySeconds) >= 60)
      try connected.settle()
    }
  }

  @Test("A retired device cannot renew")
  func retired() throws {
    let device = try directory.agedDevice()
    let connected = try service.connect(device)
    try directory.data.retire(device.id, nowSeconds: TestDirectory.nowSeconds - 1)
    service.service.reload()
    try connected.client.send(
      RawCourierFrame(0x83, (0x41, CertificateRequest.make(for: device.key))))
    let end = try connected.client.end()
    #expect(!end.frames.contains { $0.command == 0x84 && $0[0x40] == [0] })
    let again = try service.courier(device)
    try again.send(ConnectedDevice.connectMessage())
    #expect(try again.expect(0x08)[1] == [2])
  }

  @Test("Foreign dialects have no renewal command")
  func otherDialect() throws {
    let device = try directory.agedDevice()
    let client = try service.courier(device, protocols: [TestService.oldCourierProtocol])
    let connected = try ConnectedDevice(client, device)
    try client.send(RawCourierFrame(0x83, (0x41, CertificateRequest.make(for: device.key))))
    try connected.settle()
    #expect(client.received.map(\.command) == [0x08, 0x10])
  }

  @Test("A device that presents a foreign token gets its own, and the event is recorded")
  func foreignToken() throws {
    let lines = LogLines()
    let service = try TestService(
      nil,
      .init {
        $0.logLevel = .info
        $0.logSink = lines.sink
      })
    defer { service.stop() }
    let other = try service.connect()
    let device = try service.directory.device()
    let connected = try ConnectedDevice(
      service.courier(device), device, token: other.baseToken)
    #expect(connected.baseToken == service.directory.baseToken(device.id).bytes)
    let noted = lines.all("device connected").filter { $0.contains("device=\(device.id.text)") }
    #expect(noted.count == 1)
    #expect(noted.allSatisfy { $0.contains("token_changed=true") })
  }
}
