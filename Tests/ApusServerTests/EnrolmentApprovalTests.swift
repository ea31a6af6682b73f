import ApusDirectory
import ApusEnrolment
import ApusModel
import ApusServer
import ApusTLS
import ApusTesting
import ApusTrust
import Foundation
import Testing

@Suite("Devices wait for the operator", .timeLimit(.minutes(30)))
struct EnrolmentApprovalTests {
  let service: TestService
  var directory: TestDirectory { service.directory }
  var data: DataDirectory { service.directory.data }
  private var now: Int64 { TestDirectory.nowSeconds }

  init() throws { service = try TestService() }

  private func expectPending(_ answer: RawCourierFrame) throws {
    #expect(answer[0x40] == [1])
    #expect(answer[0x43] == nil)
    #expect((5...600).contains(try #require(answer.retrySeconds)))
  }

  @Test("A device without a code is listed, and gets its certificate once it is approved")
  func approved() throws {
    let applicant = try Applicant(service)
    try expectPending(applicant.ask(code: nil, name: "Tür"))
    let request = try #require(data.pendingEnrolments.all().first)
    #expect(request.key == applicant.fingerprint)
    #expect(request.name == "Tür" && request.address == "127.0.0.1")
    #expect(request.state == .waiting && !request.hasCode && !request.isRenewal)
    // Asking again changes nothing.
    try expectPending(applicant.ask(code: nil, name: "other"))
    #expect(try data.pendingEnrolments.all() == [request])

    let (approved, certificate) = try data.approveEnrolment(
      String(applicant.fingerprint.prefix(8)), nowSeconds: now)
    #expect(approved == request)
    for _ in 0..<2 {
      let device = try applicant.enrolled(code: nil)
      #expect(device.certificate == certificate)
      #expect(device.id == request.device)
      #expect(certificate.subject.commonName == "Tür")
      _ = try service.connect(device).client.tls.reset()
    }
    #expect(throws: DirectoryProblem.self) {
      try data.approveEnrolment(applicant.fingerprint, nowSeconds: now)
    }
    #expect(throws: DirectoryProblem.self) { try data.rejectEnrolment(applicant.fingerprint) }
  }

  @Test("A rejected device gets the rejection, until it is approved after all")
  func rejected() throws {
    let applicant = try Applicant(service)
    try expectPending(applicant.ask(code: nil))
    _ = try data.rejectEnrolment(applicant.fingerprint)
    try applicant.ask(code: nil).expectRefused(6)
    #expect(try data.pendingEnrolments.all().map(\.state) == [.rejected])
    _ = try data.approveEnrolment(applicant.fingerprint, name: "desk", nowSeconds: now)
    #expect(try applicant.enrolled(code: nil).certificate.subject.commonName == "desk")
  }

  @Test("A waiting device that gets a code is still one device")
  func codeWhileWaiting() throws {
    let applicant = try Applicant(service)
    try expectPending(applicant.ask(code: nil))
    let device = try applicant.enrolled(code: directory.code())
    #expect(try data.pendingEnrolments.all().isEmpty)
    #expect(throws: DirectoryProblem.self) {
      try data.approveEnrolment(applicant.fingerprint, nowSeconds: now)
    }
    _ = try service.connect(device)
  }

  @Test("Unknown and ambiguous prefixes are errors")
  func prefixes() throws {
    #expect(throws: DirectoryProblem.self) {
      try data.approveEnrolment("00000000", nowSeconds: now)
    }
    let applicants = try (0..<2).map { _ in try Applicant(service) }
    for applicant in applicants { try expectPending(applicant.ask(code: nil)) }
    #expect(throws: DirectoryProblem.self) { try data.approveEnrolment("", nowSeconds: now) }
    #expect(try data.pendingEnrolments.all().map(\.state) == [.waiting, .waiting])
  }

  /// Slowed down after a burst; on a slow machine, stopped at the limit.
  @Test("One address cannot fill the list")
  func bounded() throws {
    let template = try Applicant(service)
    var answers: [RawCourierFrame] = []
    while !answers.contains(where: { $0[0x41] == [3] }),
      answers.count < 2 * Limits.pendingEnrolmentsPerAddress
    {
      let clients = try (0..<20).map { _ in
        let request = try CertificateRequest.make(for: .generateP256())
        return try template.send(template.request(code: nil, certificateRequest: request))
      }
      answers += try clients.map(Applicant.answer)
    }
    let refused = answers.filter { $0[0x40] == [2] }
    #expect(!refused.isEmpty)
    for answer in refused {
      answer.expectRefused(3)
      #expect(try #require(answer.retrySeconds) >= 1)
    }
    let count = try data.pendingEnrolments.all().count
    #expect(count == answers.count - refused.count)
    #expect(count <= Limits.pendingEnrolmentsPerAddress)
  }

  // MARK: An offline authority key

  @Test("Without the authority's key a code makes its device wait, and is used up")
  func keyElsewhere() throws {
    let code = try directory.code()
    try directory.removeDeviceAuthorityKey()
    let applicant = try Applicant(service)
    try expectPending(applicant.ask(code: code))
    try Applicant(service).ask(code: code).expectRefused(1)
    let request = try #require(data.pendingEnrolments.all().first)
    #expect(request.hasCode)
    let trouble = #expect(throws: DirectoryProblem.self) {
      try data.approveEnrolment(applicant.fingerprint, nowSeconds: now)
    }
    #expect(trouble?.description.contains(request.device.text) == true)
    #expect(trouble?.description.contains("--certificate") == true)

    func issue(
      _ key: PublicKey? = nil, id: DeviceID? = nil, by authority: CertificateAuthority? = nil,
      validity: Validity? = nil
    ) throws -> String {
      try (authority ?? directory.deviceAuthority).issueDevice(
        deviceID: id ?? request.device, name: "kitchen", publicKey: key ?? applicant.key.publicKey,
        validity: validity ?? Validity(now: now, days: 30)
      ).pem
    }
    let wrong = try [
      issue(PrivateKey.generateP256().publicKey), issue(id: DeviceID(7)),
      issue(by: directory.foreignAuthority), issue(by: directory.serviceAuthority),
      issue(validity: TestDirectory.expired), "no certificate",
    ]
    for pem in wrong {
      #expect(throws: (any Error).self) {
        try data.approveEnrolment(applicant.fingerprint, certificatePEM: pem, nowSeconds: now)
      }
    }
    try expectPending(applicant.ask(code: code))
    let right = try issue()
    _ = try data.approveEnrolment(
      applicant.fingerprint, certificatePEM: right, nowSeconds: now)
    let device = try applicant.enrolled(code: code)
    #expect(device.certificate.pem == right)
    _ = try service.connect(device)
  }

  @Test("OpenSSL works as an offline authority")
  func opensslElsewhere() throws {
    let key = "\(data.path)/elsewhere.key"
    try FileManager.default.moveItem(atPath: data.authorityKey(.devices), toPath: key)
    let applicant = try Applicant(service)
    try expectPending(applicant.ask(code: directory.code()))
    let request = try #require(data.pendingEnrolments.all().first)
    let (extensions, file) = ("\(data.path)/device.ext", "\(data.path)/device.crt")
    try Data("extendedKeyUsage=clientAuth\n".utf8).write(to: URL(filePath: extensions))
    try OpenSSLProgram.run(
      "x509", "-req", "-in", data.pendingEnrolments.requestFile(request.key), "-CA",
      data.authorityCertificate(.devices), "-CAkey", key, "-set_serial", "77", "-days", "30",
      "-extfile", extensions, "-subj", "/UID=\(request.device.text)/CN=kitchen/O=Apus Devices",
      "-out", file)
    _ = try data.approveEnrolment(
      request.key, certificatePEM: String(contentsOfFile: file, encoding: .utf8), nowSeconds: now)
    let device = try applicant.enrolled(code: nil)
    #expect(device.certificate.serial == "4d")
    _ = try service.connect(device)
  }

  @Test("Renewal also waits for the operator, each time anew")
  func renewalElsewhere() throws {
    try directory.removeDeviceAuthorityKey()
    let device = try directory.agedDevice()
    let connected = try service.connect(device)
    let request = RawCourierFrame(0x83, (0x41, try CertificateRequest.make(for: device.key)))
    try connected.client.send(request)
    try expectPending(connected.client.expect(0x84))
    let waiting = try #require(data.pendingEnrolments.all().first)
    #expect(waiting.isRenewal && waiting.device == device.id)
    let pem = try directory.deviceAuthority.issueDevice(
      deviceID: device.id, name: "device", publicKey: device.key.publicKey,
      validity: Validity(notBefore: now - 100 * 86_400, notAfter: now + 20 * 86_400)
    ).pem
    let (_, certificate) = try data.approveEnrolment(
      waiting.key, certificatePEM: pem, nowSeconds: now)
    try connected.client.send(request)
    #expect(try connected.client.expect(0x84)[0x43] == certificate.der)
    // After that certificate, its approval does not count for the next one.
    let renewed = TestDevice(id: device.id, key: device.key, certificate: certificate)
    connected.client.tls.reset()
    try data.revokeCertificate(device.certificate.fingerprint)
    service.service.reload()
    let again = try service.connect(renewed)
    try again.client.send(request)
    try expectPending(again.client.expect(0x84))
    #expect(try data.pendingEnrolments.all().map(\.state) == [.waiting])
  }

  @Test("An unreadable authority key is a service error, and uses no code up")
  func brokenKey() throws {
    let code = try directory.code()
    let file = data.authorityKey(.devices)
    let good = try Data(contentsOf: URL(filePath: file))
    try Data("rubbish".utf8).write(to: URL(filePath: file))
    let quiet = try TestService(directory, .init { $0.logSink = { _ in } })
    defer { quiet.stop() }
    let applicant = try Applicant(quiet)
    let answer = try applicant.ask(code: code)
    answer.expectRefused(4)
    #expect(answer.retrySeconds != nil)
    try good.write(to: URL(filePath: file))
    _ = try applicant.enrolled(code: code)
  }
}
