import ApusDirectory
import ApusEnrolment
import ApusModel
import ApusServer
import ApusTLS
import ApusTesting
import ApusTrust
import Foundation
import Testing

@Suite("Enrolment requests of devices", .timeLimit(.minutes(30)))
struct EnrolmentRequestTests {
  let service: TestService
  var directory: TestDirectory { service.directory }

  init() throws { service = try TestService() }

  @Test("Requests without a valid proof use no code up")
  func garbage() throws {
    let code = try directory.code()
    let applicant = try Applicant(service)
    let good = try CertificateRequest.make(for: applicant.key)
    var forged = good
    forged[forged.count - 1] ^= 1
    let rubbish: [[UInt8]] = [
      forged, good + [0], Array(good.dropLast()), [0x30, 0], [0],
      [UInt8](repeating: 0x30, count: Limits.certificateRequestBytes),
      directory.deviceAuthority.certificate.der,
    ]
    try withBystanders(service) {
      let clients = try rubbish.map {
        try applicant.send(applicant.request(code: code, certificateRequest: $0))
      }
      for client in clients { try Applicant.answer(client).expectRefused(2) }
    }
    _ = try applicant.enrolled(code: code)
  }

  @Test("Frames that break the protocol end the connection")
  func brokenFrames() throws {
    let applicant = try Applicant(service)
    let long = try applicant.request(
      code: nil, certificateRequest: [UInt8](repeating: 0x30, count: 8193))
    let empty = RawCourierFrame(0x81, (0x42, Array("phone".utf8)))
    try withBystanders(service) {
      for frame in [long, empty] {
        let end = try applicant.send(frame).end()
        #expect(end.frames.map(\.command) == [0x80])
        #expect(end.end == .closeNotify)
      }
      // The service does not even wait for a megabyte.
      let client = try service.courier(nil)
      try client.tls.send(hex("81 00100000"))
      let end = try client.end()
      #expect(end.frames.map(\.command) == [0x80])
    }
  }

  @Test("Enrolment is possible only in our own dialect, without a certificate, as the first frame")
  func outOfPlace() throws {
    let applicant = try Applicant(service)
    let frame = try applicant.request(code: directory.code())
    // With a certificate, it is not a valid first frame.
    let device = try directory.device()
    let known = try service.courier(device)
    try known.send(frame)
    #expect(try known.end().frames.map(\.command) == [0x80])
    // In foreign dialects our own frames are never sent.
    let other = RawCourierClient(
      try service.tls(.courier, protocols: [TestService.inBandProtocol]))
    try other.send(frame)
    #expect(try other.end().frames.isEmpty)
    // On an accepted connection it is skipped.
    let connected = try service.connect(device)
    try connected.client.send(frame)
    try connected.settle()
    // Frames after a request are not read.
    let client = try service.courier(nil)
    try client.send(frame, frame, ConnectedDevice.connectMessage())
    _ = try applicant.device(Applicant.answer(client))
  }

  @Test(
    "OpenSSL's command line creates a valid request, and verifies the certificate",
    arguments: [
      ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"], ["-newkey", "rsa:2048"],
      ["-newkey", "rsa:4096"],
    ])
  func openssl(key: [String]) throws {
    let path = directory.data.path
    let (keyFile, requestFile, file) = ("\(path)/k.pem", "\(path)/r.der", "\(path)/c.pem")
    let made = try OpenSSLProgram.run(
      arguments: ["req", "-new", "-nodes"] + key + [
        "-keyout", keyFile, "-outform", "DER", "-out", requestFile, "-subj",
        "/CN=anybody/UID=ffffffffffffffff", "-addext", "basicConstraints=critical,CA:TRUE",
      ])
    #expect(!made.contains("rror"))
    let request = [UInt8](try Data(contentsOf: URL(filePath: requestFile)))
    let applicant = try Applicant(
      service, key: PrivateKey(pem: String(contentsOfFile: keyFile, encoding: .utf8)))
    let device = try applicant.device(
      applicant.ask(code: directory.code(), certificateRequest: request))
    #expect(device.id.text != "ffffffffffffffff")
    try Data(device.certificate.pem.utf8).write(to: URL(filePath: file))
    let verdict = try OpenSSLProgram.run(
      "verify", "-CAfile", directory.data.authorityCertificate(.devices), "-purpose", "sslclient",
      "-x509_strict", file)
    #expect(verdict.contains("c.pem: OK"))
    let text = try OpenSSLProgram.run("x509", "-in", file, "-noout", "-text")
    #expect(text.contains("CA:FALSE") || !text.contains("CA:TRUE"))
    #expect(text.contains("TLS Web Client Authentication"))
    _ = try service.connect(device)
  }

  @Test("An operator can allow codes only, or no enrolment")
  func modes() throws {
    let codesOnly = try TestService(nil, .init { $0.enrolment = .codes })
    defer { codesOnly.stop() }
    let applicant = try Applicant(codesOnly)
    try applicant.ask(code: nil).expectRefused(5)
    #expect(try codesOnly.directory.data.pendingEnrolments.all().isEmpty)
    _ = try applicant.enrolled(code: codesOnly.directory.code())

    let off = try TestService(nil, .init { $0.enrolment = .off })
    defer { off.stop() }
    let foreign = try Applicant(off)
    try foreign.ask(code: off.directory.code()).expectRefused(5)
    try foreign.ask(code: nil).expectRefused(5)
    // Existing devices still renew.
    let device = try off.connect(off.directory.agedDevice())
    try device.client.send(
      RawCourierFrame(0x83, (0x41, CertificateRequest.make(for: device.device.key))))
    #expect(try device.client.expect(0x84)[0x40] == [0])
  }
}
