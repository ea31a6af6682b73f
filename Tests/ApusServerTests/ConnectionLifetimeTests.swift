import ApusCore
import ApusDirectory
import ApusLoop
import ApusModel
import ApusServer
import ApusTLS
import ApusTesting
import ApusTrust
import Testing

/// A connection made with a key, a certificate or an authority lasts only as long as that is valid.
@Suite("A connection ends when its authorization ends")
struct ConnectionLifetimeTests {
  private let service: TestService
  private var data: DataDirectory { service.directory.data }
  private let now = TestDirectory.nowSeconds

  init() throws { service = try TestService() }

  private func push(
    _ provider: RawHTTP2Client, _ token: String, authorization: String? = nil
  ) throws -> Int? {
    let headers = service.pushHeaders(to: token, authorization: authorization)
    return try provider.exchange(headers, body: TestService.payload).status
  }

  private func expectGoAway(_ provider: RawHTTP2Client, _ reason: String) throws {
    let goAways = try provider.end().goAways
    #expect(goAways.last?.debugData.contains(reason) == true, "\(goAways)")
  }

  /// Expects the goodbye (command 0x80), whose field 0x40 contains the reason and the remedy.
  private func expectGoodbye(_ device: ConnectedDevice, _ text: String) throws {
    let last = try #require(try device.client.end().frames.last)
    #expect(last.command == 0x80)
    let reason = String(decoding: last[0x40] ?? [], as: UTF8.self)
    #expect(reason.contains(text), "\(reason)")
    #expect(reason.contains("needs a new certificate"), "\(reason)")
  }

  private func auditLines() throws -> [Substring] {
    try Files.readText(data.auditFile).split(separator: "\n")
  }

  // MARK: Authorities

  @Test("Removing the service's authority ends providers of both interfaces, and others stay")
  func serviceAuthority() throws {
    defer { service.stop() }
    let old = try service.directory.providerIdentity()
    let provider = try service.provider(identity: old)
    let gateway = try service.gateway(listener: 0, identity: old)
    let bearer = try service.provider()
    let token = try service.connect().token()
    let authorization = try service.authorization()
    #expect(try push(provider, token) == 200)
    #expect(try push(bearer, token, authorization: authorization) == 200)
    _ = try data.rotateAuthority(.service, nowSeconds: now)
    service.service.reload()
    let new = try service.provider(
      identity: service.directory.providerIdentity(authority: data.authority(.service)))
    #expect(try push(provider, token) == 200)
    #expect(try push(new, token) == 200)
    _ = try data.finishRotation(of: .service, nowSeconds: now)
    service.service.reload()
    try expectGoAway(provider, "BadCertificate")
    try expectEnd(gateway, nil)
    #expect(try push(new, token) == 200)
    #expect(try push(bearer, token, authorization: authorization) == 200)
    let lines = try auditLines()
    #expect(
      lines.contains {
        $0.contains(#""event":"connection.closed""#) && $0.contains("no longer trusted")
      }, "\(lines)")
  }

  @Test(
    "After the devices' authority is removed, its devices are disconnected, dormant or not",
    arguments: [true, false])
  func deviceAuthority(isDormant: Bool) throws {
    defer { service.stop() }
    let old = try service.connect()
    try old.enable(TestDirectory.topic)
    _ = try data.rotateAuthority(.devices, nowSeconds: now)
    service.service.reload()
    let new = try service.connect(
      service.directory.device(authority: data.authority(.devices)))
    try new.enable(TestDirectory.topic)
    if isDormant { try service.awaitDormant(2) } else { try old.settle() }
    _ = try data.finishRotation(of: .devices, nowSeconds: now)
    service.service.reload()
    try expectGoodbye(old, "no longer trusted")
    try new.settle()
  }

  @Test("The same holds for a device with its certificate in the connect message")
  func inBand() throws {
    defer { service.stop() }
    let client = try service.courier(protocols: [TestService.inBandProtocol])
    try client.send(service.directory.device(rsaBits: 2048).signedConnect())
    #expect(try client.expect(0x08)[1] == [0])
    _ = try data.rotateAuthority(.devices, nowSeconds: now)
    _ = try data.finishRotation(of: .devices, nowSeconds: now)
    service.service.reload()
    _ = try client.end()
  }

  // MARK: Expiry

  /// Long enough for a handshake on a busy machine, and for a device to become dormant.
  private var short: Validity { Validity(notBefore: now - 60, notAfter: now + 8) }

  @Test("An expired provider certificate causes GOAWAY, and ends a binary connection")
  func providerExpires() throws {
    defer { service.stop() }
    let identity = try service.directory.providerIdentity(validity: short)
    let provider = try service.provider(identity: identity)
    let gateway = try service.gateway(listener: 0, identity: identity)
    let token = try service.connect().token()
    #expect(try push(provider, token) == 200)
    try expectGoAway(provider, "BadCertificate")
    try expectEnd(gateway, nil)
    #expect(TestDirectory.nowSeconds > short.notAfter)
  }

  @Test("An expired device certificate ends the connection", arguments: [true, false])
  func deviceExpires(isDormant: Bool) throws {
    defer { service.stop() }
    let device = try service.connect(service.directory.device(validity: short))
    try device.enable(TestDirectory.topic)
    if isDormant { try service.awaitDormant() }
    try expectGoodbye(device, "has expired")
    #expect(TestDirectory.nowSeconds > short.notAfter)
    let lines = try auditLines()
    #expect(
      lines.contains {
        $0.contains(#""event":"connection.closed""#) && $0.contains("expired")
      }, "\(lines)")
  }

  // MARK: Keys

  @Test("Replacing a public key under its id rejects tokens of the old key immediately")
  func keyReplaced() throws {
    defer { service.stop() }
    let token = try service.connect().token()
    let pair = service.directory.productionKey
    let provider = try service.provider()
    let bystander = try service.provider()
    let authorization = try "bearer \(pair.token())"
    let other = try service.authorization()
    #expect(try push(provider, token, authorization: authorization) == 200)
    #expect(try push(bystander, token, authorization: other) == 200)
    try Files.write(
      PrivateKey.generateP256().publicKey.spkiPEM, to: data.publicKey(pair.id), isPrivate: false)
    service.service.reload()
    try expectGoAway(provider, "InvalidProviderToken")
    #expect(try push(bystander, token, authorization: other) == 200)
    let again = try service.provider()
    #expect(try push(again, token, authorization: authorization) == 403)
  }

  @Test("Tokens of a key that is no longer listed are rejected")
  func keyRemoved() throws {
    defer { service.stop() }
    let token = try service.connect().token()
    let pair = service.directory.productionKey
    let provider = try service.provider()
    let authorization = try "bearer \(pair.token())"
    #expect(try push(provider, token, authorization: authorization) == 200)
    var records = try data.records()
    records.sections.removeAll { $0.kind == "key" && $0.name == pair.id.text }
    try data.save(records)
    service.service.reload()
    try expectGoAway(provider, "InvalidProviderToken")
  }
}
