import ApusDirectory
import ApusEnrolment
import ApusModel
import ApusServer
import ApusTesting
import ApusTrust
import Testing

/// A stolen or careless device cannot collect certificates.
@Suite("A device has at most two valid certificates")
struct SecondCertificateTests {
  private let service: TestService
  private var directory: TestDirectory { service.directory }
  private var data: DataDirectory { directory.data }

  init() throws { service = try TestService() }

  /// The answer to a renewal request on a new connection.
  private func renew(_ device: TestDevice, _ key: PrivateKey) throws -> RawCourierFrame {
    let connected = try service.connect(device)
    try connected.client.send(RawCourierFrame(0x83, (0x41, try CertificateRequest.make(for: key))))
    while true {
      let frame = try #require(try connected.client.nextFrame())
      guard frame.command == 0x84 else { continue }
      connected.client.tls.reset()
      return frame
    }
  }

  @Test("The same key gets the same certificate again, another key none until one is revoked")
  func third() throws {
    defer { service.stop() }
    let device = try directory.agedDevice()
    let first = try renew(device, device.key)
    #expect(first[0x40] == [0])
    for _ in 0..<3 { #expect(try renew(device, device.key)[0x43] == first[0x43]) }
    let other = try PrivateKey.generateP256()
    let refused = try renew(device, other)
    refused.expectRefused(3)
    #expect(refused.reason.contains("two valid certificates"), "\(refused.reason)")
    #expect(try #require(refused.retrySeconds) > 3600)
    let der = try #require(first[0x43])
    let newer = try Certificate(der: der.span)
    try data.revokeCertificate(newer.fingerprint)
    service.service.reload()
    #expect(try renew(device, other)[0x40] == [0])
  }

  @Test("During a rotation a device gets one certificate of the new authority")
  func rotation() throws {
    defer { service.stop() }
    let device = try directory.device()
    _ = try data.rotateAuthority(.devices, nowSeconds: TestDirectory.nowSeconds)
    service.service.reload()
    let first = try renew(device, device.key)
    #expect(first[0x40] == [0])
    for _ in 0..<3 { #expect(try renew(device, device.key)[0x43] == first[0x43]) }
    try renew(device, PrivateKey.generateP256()).expectRefused(3)
    // The newer one is new and the older one still valid: there is no third.
    let der = try #require(first[0x43])
    let newer = TestDevice(
      id: device.id, key: device.key, certificate: try Certificate(der: der.span))
    try renew(newer, device.key).expectRefused(7)
  }

  @Test("After two unfinished rotations there is a third one only when one of the two is revoked")
  func rotations() throws {
    defer { service.stop() }
    let device = try directory.device()
    func rotate() throws {
      _ = try data.rotateAuthority(.devices, nowSeconds: TestDirectory.nowSeconds)
      service.service.reload()
    }
    try rotate()
    let answer = try renew(device, device.key)
    let der = try #require(answer[0x43])
    let second = TestDevice(
      id: device.id, key: device.key, certificate: try Certificate(der: der.span))
    try rotate()
    // It presents the second one, and the first one is valid as well.
    try renew(second, device.key).expectRefused(3)
    try renew(device, device.key).expectRefused(3)
    try data.revokeCertificate(device.certificate.fingerprint)
    service.service.reload()
    #expect(try renew(second, device.key)[0x40] == [0])
  }

  @Test("Once the older authorities are dropped, their certificates count no longer")
  func finished() throws {
    defer { service.stop() }
    let device = try directory.device()
    _ = try data.rotateAuthority(.devices, nowSeconds: TestDirectory.nowSeconds)
    service.service.reload()
    let der = try #require(renew(device, device.key)[0x43])
    let second = TestDevice(
      id: device.id, key: device.key, certificate: try Certificate(der: der.span))
    _ = try data.finishRotation(
      of: .devices, locksOut: true, nowSeconds: TestDirectory.nowSeconds)
    _ = try data.rotateAuthority(.devices, nowSeconds: TestDirectory.nowSeconds)
    service.service.reload()
    #expect(try renew(second, device.key)[0x40] == [0])
  }

  @Test("Certificates that the operator approves count as well")
  func approved() throws {
    defer { service.stop() }
    let device = try directory.agedDevice()
    try directory.removeDeviceAuthorityKey()
    let keys = [device.key, try PrivateKey.generateP256(), try .generateP256()]
    for key in keys { #expect(try renew(device, key)[0x40] == [1]) }
    func approve(_ key: PrivateKey) throws -> Certificate {
      let pem = try directory.deviceAuthority.issueDevice(
        deviceID: device.id, name: "device", publicKey: key.publicKey,
        validity: Validity(now: TestDirectory.nowSeconds, days: 30)
      ).pem
      return try data.approveEnrolment(
        key.publicKey.spkiSHA256.hex, certificatePEM: pem, nowSeconds: TestDirectory.nowSeconds
      ).certificate
    }
    let second = try approve(keys[0])
    let refusal = #expect(throws: DirectoryProblem.self) { try approve(keys[1]) }
    let text = refusal?.description ?? ""
    for certificate in [device.certificate, second] {
      #expect(text.contains(certificate.fingerprint.hex), "\(text)")
    }
    // The device gets what was approved, and is told that there is no third.
    #expect(try renew(device, keys[0])[0x43] == second.der)
    try renew(device, keys[2]).expectRefused(3)
    try data.revokeCertificate(second.fingerprint)
    service.service.reload()
    let third = try approve(keys[1])
    #expect(try renew(device, keys[1])[0x43] == third.der)
  }
}
