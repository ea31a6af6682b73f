import ApusLoop
import ApusModel
import ApusServer
import ApusTLS
import ApusTesting
import ApusTrust
import Testing

@Suite("Devices are accepted by their certificate")
struct CourierConnectTests {
  let service: TestService

  init() throws { service = try Shared.service }

  /// Status, (token,) message size 5120, version 2, no capabilities, large message size 5120, time.
  private func expectedResponse(
    status: String, token: [UInt8]?, middle: [UInt8] = [], time: [UInt8]
  ) -> [UInt8] {
    let fields =
      hex("01 0001 \(status)") + (token.map { hex("03 0020") + $0 } ?? [])
      + hex("04 0002 1400  05 0002 0002  06 0004 00000000") + middle + hex("08 0002 1400")
      + hex("0a 0008") + time
    return hex("08 000000") + [UInt8(fields.count)] + fields
  }

  /// Whether 8 bytes are the current time in milliseconds, within a minute.
  private func isNow(_ bytes: [UInt8]?) -> Bool {
    guard let bytes, bytes.count == 8 else { return false }
    let milliseconds = bytes.reduce(Int64(0)) { $0 << 8 | Int64($1) }
    return abs(milliseconds - EventLoop.wallClockMilliseconds()) < 60_000
  }

  @Test(
    "A certificate in the handshake: the response has exactly the fields that all clients need",
    arguments: [TestService.courierProtocol, TestService.oldCourierProtocol])
  func inHandshake(name: String) throws {
    let device = try service.directory.device()
    let client = try service.courier(device, protocols: [name])
    #expect(client.tls.negotiatedProtocol == name)
    // State 1, flags 0x41.
    try client.tls.send(hex("07 0000000b 02 0001 01 05 0004 00000041"))
    let response = try client.expect(0x08)
    let token = service.directory.baseToken(device.id).bytes
    #expect(isNow(response[10]))
    #expect(
      response.bytes == expectedResponse(status: "00", token: token, time: response[10] ?? []))
  }

  @Test("A device gets its own token, whatever token it presents")
  func token() throws {
    let device = try service.connect()
    let other = try service.connect()
    for presented in [device.baseToken, other.baseToken, [1, 2, 3], []] {
      let again = try ConnectedDevice(
        service.courier(device.device), device.device, token: presented)
      #expect(again.baseToken == device.baseToken)
      // Gone before the next one connects, to stay below the limit of takeovers.
      again.client.tls.reset()
    }
    #expect(other.baseToken != device.baseToken)
    #expect(device.baseToken.count == 32)
  }

  @Test("Without a certificate the handshake succeeds, and the connection ends")
  func withoutCertificate() throws {
    try withBystanders(service) {
      let client = try service.courier(nil, protocols: [TestService.oldCourierProtocol])
      let end = try client.end()
      #expect(end.frames.isEmpty)
      #expect(end.end == .closeNotify)
    }
  }

  @Test("In our own dialect a device may request a certificate, but its connect message is refused")
  func connectWithoutCertificate() throws {
    try withBystanders(service) {
      let client = try service.courier(nil)
      try client.send(ConnectedDevice.connectMessage())
      let response = try client.expect(0x08)
      #expect(
        response.bytes == expectedResponse(status: "02", token: nil, time: response[10] ?? []))
      let end = try client.end()
      #expect(end.frames.isEmpty)
      #expect(end.end == .closeNotify)
    }
  }

  @Test("Certificates of another authority, and expired ones, end the handshake")
  func untrusted() throws {
    let directory = service.directory
    let cases: [(TestDevice, UInt8)] = try [
      (directory.device(authority: directory.foreignAuthority), 48),
      (directory.device(authority: directory.serviceAuthority), 48),
      (directory.device(validity: TestDirectory.expired), 45),
    ]
    try withBystanders(service) {
      for (device, alert) in cases {
        let client = try service.courier(device)
        #expect(try client.end().end == .failed(.alertReceived(alert)))
      }
    }
  }

  // MARK: The certificate in the connect message

  private func device(
    validity: Validity? = nil, authority: CertificateAuthority? = nil
  ) throws -> TestDevice {
    try service.directory.device(key: Shared.rsaKey, validity: validity, authority: authority)
  }

  private func nonce(secondsOff: Int64 = 0) -> [UInt8] { TestDevice.nonce(secondsOff: secondsOff) }

  private func connectMessage(
    _ device: TestDevice, nonce: [UInt8], signature: [UInt8]? = nil
  ) throws -> RawCourierFrame {
    try device.signedConnect(nonce: nonce, signature: signature)
  }

  private func connect(
    _ message: RawCourierFrame, identity: TLSIdentity? = nil
  ) throws -> RawCourierClient {
    let client = RawCourierClient(
      try service.tls(.courier, protocols: [TestService.inBandProtocol], identity: identity))
    try client.send(message)
    return client
  }

  /// Status 2 with the other fields, and the end.
  private func expectRefused(
    _ message: RawCourierFrame, identity: TLSIdentity? = nil, isAboutTime: Bool = false,
    sourceLocation: SourceLocation = #_sourceLocation
  ) throws {
    let client = try connect(message, identity: identity)
    let response = try client.expect(0x08)
    let time = response[10] ?? []
    #expect(isNow(time), sourceLocation: sourceLocation)
    let middle = isAboutTime ? hex("07 0008") + time : []
    #expect(
      response.bytes == expectedResponse(status: "02", token: nil, middle: middle, time: time),
      sourceLocation: sourceLocation)
    let end = try client.end()
    #expect(end.frames.isEmpty, sourceLocation: sourceLocation)
    #expect(end.end == .closeNotify, sourceLocation: sourceLocation)
  }

  @Test("A signed nonce is accepted once")
  func signedNonce() throws {
    let device = try device()
    let message = try connectMessage(device, nonce: nonce())
    try withBystanders(service) {
      let client = try connect(message)
      let response = try client.expect(0x08)
      let token = service.directory.baseToken(device.id).bytes
      #expect(
        response.bytes == expectedResponse(status: "00", token: token, time: response[10] ?? []))
      try expectRefused(message)
      // The same device is accepted with a new nonce, and with its certificate in the handshake.
      let fresh = try connect(
        connectMessage(device, nonce: nonce()), identity: device.identity)
      #expect(try fresh.expect(0x08)[1] == [0])
    }
  }

  @Test(
    "A nonce more than five minutes off gets the service's time", arguments: [-330, 330])
  func clock(secondsOff: Int64) throws {
    try withBystanders(service) {
      try expectRefused(
        connectMessage(device(), nonce: nonce(secondsOff: secondsOff)), isAboutTime: true)
    }
    let near = try connect(connectMessage(device(), nonce: nonce(secondsOff: secondsOff / 2)))
    #expect(try near.expect(0x08)[1] == [0])
  }

  @Test("An invalid proof is refused")
  func badProof() throws {
    let device = try device()
    let nonce = nonce()
    let good = try device.key.signature(over: nonce.span, digest: .sha1)
    let strong = try device.key.signature(over: nonce.span, digest: .sha256)
    let elliptic = try service.directory.device()
    let messages = try [
      connectMessage(device, nonce: nonce, signature: [1, 1] + good.reversed()),
      connectMessage(device, nonce: nonce, signature: [1, 2] + good),
      connectMessage(device, nonce: nonce, signature: good),
      connectMessage(device, nonce: nonce, signature: [1, 1] + strong),
      connectMessage(device, nonce: nonce, signature: [1, 1]),
      connectMessage(device, nonce: nonce, signature: []),
      connectMessage(device, nonce: [1] + nonce.dropFirst()),
      connectMessage(device, nonce: Array(nonce.dropLast())),
      connectMessage(device, nonce: nonce + [0]),
      connectMessage(device, nonce: []),
      // The dialect supports only RSA.
      connectMessage(elliptic, nonce: nonce),
    ]
    try withBystanders(service) {
      for message in messages { try expectRefused(message) }
    }
  }

  @Test("A foreign or malformed certificate is refused")
  func badCertificate() throws {
    let directory = service.directory
    let good = try device()
    let nonce = nonce()
    var without = try connectMessage(good, nonce: nonce)
    without.fields.removeAll { $0.id == 12 }
    var rubbish = try connectMessage(good, nonce: nonce)
    rubbish.fields[2].value = [0x30, 0x03, 0x02, 0x01, 0x01]
    var cut = try connectMessage(good, nonce: nonce)
    cut.fields[2].value.removeLast()
    let messages = try [
      connectMessage(device(authority: directory.foreignAuthority), nonce: nonce),
      connectMessage(device(authority: directory.serviceAuthority), nonce: nonce),
      connectMessage(device(validity: TestDirectory.expired), nonce: nonce),
      without, rubbish, cut, ConnectedDevice.connectMessage(),
    ]
    try withBystanders(service) {
      for message in messages { try expectRefused(message) }
      // Two certificates with different keys contradict each other.
      try expectRefused(
        connectMessage(good, nonce: nonce), identity: directory.device().identity)
    }
  }

  @Test("An operator can switch the in-band dialect off")
  func switchedOff() throws {
    let service = try TestService(nil, .init { $0.allowsInBandCertificates = false })
    defer { service.stop() }
    #expect(
      throws: RawFault.ended(
        .failed(.noApplicationProtocol), awaiting: "the handshake was complete")
    ) {
      try service.tls(.courier, protocols: [TestService.inBandProtocol])
    }
  }
}
