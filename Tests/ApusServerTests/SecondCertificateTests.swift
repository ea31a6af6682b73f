import ApusDirectory
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
}
