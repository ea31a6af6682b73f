import ApusDirectory
import ApusLog
import ApusLoop
import ApusModel
import ApusServer
import ApusTLS
import ApusTesting
import ApusTrust
import Foundation
import Testing

/// A revocation refuses new handshakes and ends open connections, without a reload command.
@Suite("Revocations take effect immediately")
struct RevocationTests {
  let service: TestService

  init() throws { service = try TestService() }

  /// A revocation list of `authority`, created by OpenSSL's command line.
  private func list(_ authority: DataDirectory.Authority, _ revoked: [TLSIdentity]) throws -> Data {
    let folder = FileManager.default.temporaryDirectory.appending(path: "crl-\(UUID().uuidString)")
    defer { try? FileManager.default.removeItem(at: folder) }
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    func openssl(_ arguments: [String]) throws {
      let process = Process()
      process.executableURL = URL(filePath: "/usr/bin/openssl")
      process.arguments = arguments
      process.currentDirectoryURL = folder
      process.standardError = FileHandle.nullDevice
      try process.run()
      process.waitUntilExit()
      try #require(process.terminationStatus == 0, "openssl \(arguments)")
    }
    try Data().write(to: folder.appending(path: "index"))
    try Data("[ca]\ndefault_ca=a\n[a]\ndatabase=index\ndefault_md=sha256\n".utf8)
      .write(to: folder.appending(path: "config"))
    let data = service.directory.data
    let common = [
      "ca", "-config", "config", "-cert", data.authorityCertificate(authority), "-keyfile",
      data.authorityKey(authority),
    ]
    for identity in revoked {
      try Data(identity.certificateChainPEM).write(to: folder.appending(path: "leaf"))
      try openssl(common + ["-revoke", "leaf"])
    }
    try openssl(common + ["-gencrl", "-crldays", "30", "-out", "list"])
    return try Data(contentsOf: folder.appending(path: "list"))
  }

  private var folder: String { service.directory.data.path + "/crls" }

  private func publish(_ list: Data, as name: String) throws {
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    try list.write(to: URL(filePath: "\(folder)/\(name)"), options: .atomic)
  }

  /// Expects a refused handshake. With TLS 1.3 the client learns of it from its first read.
  private func expectRefused(
    _ kind: ListenerKind, _ protocols: [String], _ identity: TLSIdentity
  ) throws {
    // RFC 8446, section 6.2: certificate_revoked.
    let end = try service.tls(kind, protocols: protocols, identity: identity).receiveAll().1
    #expect(end == .failed(.alertReceived(44)))
  }

  private func push(_ provider: RawHTTP2Client, _ token: String) throws -> Int? {
    let headers = service.pushHeaders(to: token, authorization: nil)
    return try provider.exchange(headers, body: TestService.payload).status
  }

  private func auditLines() throws -> [String] {
    let file = service.directory.data.auditFile
    guard FileManager.default.fileExists(atPath: file) else { return [] }
    return try String(contentsOfFile: file, encoding: .utf8)
      .split(separator: "\n").map(String.init)
  }

  @Test("A provider certificate revoked in directory.conf causes GOAWAY, and no new handshake")
  func provider() throws {
    defer { service.stop() }
    let identity = try service.directory.providerIdentity()
    let token = try service.connect().token()
    let provider = try service.provider(identity: identity)
    let bystander = try service.provider(identity: service.directory.providerIdentity())
    #expect(try push(provider, token) == 200)
    #expect(try push(bystander, token) == 200)
    try service.directory.revoke(identity)
    // The end comes next, without a reload command.
    #expect(try provider.end().goAways.last?.debugData.contains("BadCertificate") == true)
    try expectRefused(.provider, ["h2"], identity)
    #expect(try push(bystander, token) == 200)
    let lines = try auditLines()
    #expect(lines.contains { $0.contains("\"event\":\"trust.reloaded\"") })
    #expect(
      lines.contains {
        $0.contains("\"event\":\"connection.closed\"") && $0.contains("BadCertificate")
      })
    #expect(
      lines.contains {
        $0.contains("\"event\":\"handshake.refused\"") && $0.contains("certificate revoked")
      })
  }

  /// Polls until there is such a line.
  private func awaitAuditLine(_ text: String) throws {
    let deadline = ContinuousClock.now + .seconds(60)
    while try !auditLines().contains(where: { $0.contains(text) }) {
      try #require(ContinuousClock.now < deadline, "no line with \(text)")
      usleep(20_000)
    }
  }

  @Test("A failed reload is retried when only its cause has changed")
  func retry() throws {
    defer { service.stop() }
    let identity = try service.directory.providerIdentity()
    let provider = try service.provider(identity: identity)
    let token = try service.connect().token()
    #expect(try push(provider, token) == 200)
    let keys = service.directory.data.path + "/keys"
    let name = try #require(
      FileManager.default.contentsOfDirectory(atPath: keys).first { $0.hasSuffix(".pub") })
    let file = URL(filePath: "\(keys)/\(name)")
    let good = try Data(contentsOf: file)
    // In place: the time stamp of the folder, which is watched, does not change.
    try Data("damaged".utf8).write(to: file)
    try service.directory.revoke(identity)
    try awaitAuditLine("\"event\":\"trust.not-reloaded\"")
    #expect(try push(provider, token) == 200)
    try good.write(to: file)
    #expect(try provider.end().goAways.last?.debugData.contains("BadCertificate") == true)
    try expectRefused(.provider, ["h2"], identity)
  }

  @Test("An unreadable folder of revocation lists does not count as empty")
  func unreadableFolder() throws {
    defer { service.stop() }
    let identity = try service.directory.providerIdentity()
    let bystander = try service.provider(identity: service.directory.providerIdentity())
    let token = try service.connect().token()
    try publish(list(.service, [identity]), as: "service.crl")
    try awaitAuditLine("\"event\":\"trust.reloaded\"")
    try expectRefused(.provider, ["h2"], identity)
    try FileManager.default.moveItem(atPath: folder, toPath: folder + ".away")
    // A file instead of the folder: ENOTDIR for everybody, including root.
    try Data().write(to: URL(filePath: folder))
    try awaitAuditLine("cannot list \(folder)")
    try expectRefused(.provider, ["h2"], identity)
    #expect(try push(bystander, token) == 200)
  }

  @Test("A folder of revocation lists that disappears does not count as empty, until it is one")
  func missingFolder() throws {
    defer { service.stop() }
    let identity = try service.directory.providerIdentity()
    let other = try service.directory.providerIdentity()
    let bystander = try service.provider(identity: service.directory.providerIdentity())
    let token = try service.connect().token()
    try publish(list(.service, [identity]), as: "service.crl")
    try awaitAuditLine("\"event\":\"trust.reloaded\"")
    try expectRefused(.provider, ["h2"], identity)
    try FileManager.default.moveItem(atPath: folder, toPath: folder + ".away")
    try awaitAuditLine("the folder of revocation lists \(folder) is missing: mount or restore it")
    try expectRefused(.provider, ["h2"], identity)
    #expect(try push(bystander, token) == 200)
    // It comes back: what was changed meanwhile applies, too.
    let provider = try service.provider(identity: other)
    try service.directory.revoke(other)
    try FileManager.default.moveItem(atPath: folder + ".away", toPath: folder)
    #expect(try provider.end().goAways.last?.debugData.contains("BadCertificate") == true)
    try expectRefused(.provider, ["h2"], identity)
    // A list that is deleted is one that the operator takes back.
    try FileManager.default.removeItem(atPath: folder + "/service.crl")
    service.service.reload()
    #expect(try push(service.provider(identity: identity), token) == 200)
  }

  @Test(
    "An empty folder on another file system is a volume that is not mounted",
    .enabled(if: fileSystem("/dev/shm") != fileSystem(NSTemporaryDirectory())))
  func unmountedFolder() throws {
    defer { service.stop() }
    let identity = try service.directory.providerIdentity()
    let volume = "/dev/shm/apus-crls-\(UUID().uuidString)"
    defer { try? FileManager.default.removeItem(atPath: volume) }
    try FileManager.default.createDirectory(atPath: volume, withIntermediateDirectories: false)
    try list(.service, [identity]).write(to: URL(filePath: volume + "/service.crl"))
    // A link stands in for a mount, which only root may make.
    try FileManager.default.removeItem(atPath: folder)
    try FileManager.default.createSymbolicLink(atPath: folder, withDestinationPath: volume)
    service.service.reload()
    try expectRefused(.provider, ["h2"], identity)
    try FileManager.default.removeItem(atPath: folder)
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
    try awaitAuditLine("is empty and on another file system")
    try expectRefused(.provider, ["h2"], identity)
  }

  private static func fileSystem(_ path: String) -> UInt? {
    var status = stat()
    return stat(path, &status) == 0 ? UInt(status.st_dev) : nil
  }

  @Test("A start without the folder fails, unless the directory never had one")
  func missingAtStart() throws {
    service.stop()
    try FileManager.default.removeItem(atPath: folder)
    let problem = #expect(throws: DirectoryProblem.self) { try TestService(service.directory) }
    let text = problem?.description ?? ""
    #expect(text.contains("\(folder) is missing") && text.contains("create an empty folder"))
    // As an older version made it.
    try FileManager.default.removeItem(atPath: folder + ".made")
    func start() throws -> LogLines {
      let lines = LogLines()
      try TestService(
        service.directory,
        .init {
          $0.logLevel = .info
          $0.logSink = lines.sink
        }
      ).stop()
      return lines
    }
    let warning = "no folder of revocation lists"
    #expect(try start().all(warning).count == 1)
    // From its first folder on it counts as one that has it.
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
    #expect(try start().all(warning).isEmpty)
    try FileManager.default.removeItem(atPath: folder)
    #expect(throws: DirectoryProblem.self) { try TestService(service.directory) }
  }

  @Test(
    "A device certificate on its authority's list ends its connection, and refuses handshakes",
    arguments: [TestService.courierProtocol, TestService.oldCourierProtocol])
  func device(dialect: String) throws {
    defer { service.stop() }
    let device = try service.directory.device()
    let revoked = try ConnectedDevice(
      service.courier(device, protocols: [dialect]), device)
    let bystander = try service.connect()
    try revoked.enable(TestDirectory.topic)
    try bystander.enable(TestDirectory.topic)
    try publish(list(.devices, [revoked.device.identity]), as: "devices.crl")
    _ = try revoked.client.end()
    try expectRefused(.courier, [dialect], device.identity)
    try bystander.settle()
  }

  @Test("The same holds for a device with its certificate in the connect message")
  func inBand() throws {
    defer { service.stop() }
    let device = try service.directory.device(rsaBits: 2048)
    let client = try service.courier(protocols: [TestService.inBandProtocol])
    try client.send(device.signedConnect())
    #expect(try client.expect(0x08)[1] == [0])
    try publish(list(.devices, [device.identity]), as: "devices.crl")
    _ = try client.end()
    let again = try service.courier(protocols: [TestService.inBandProtocol])
    try again.send(device.signedConnect())
    #expect(try again.expect(0x08)[1] == [2])
  }

  @Test("A list of the service's authority revokes providers at every listener")
  func providerList() throws {
    defer { service.stop() }
    let identity = try service.directory.providerIdentity()
    let provider = try service.provider(identity: identity)
    try provider.ping()
    try publish(list(.service, [identity]), as: "service.pem")
    #expect(try !provider.end().goAways.isEmpty)
    try expectRefused(.provider, ["h2"], identity)
    try expectRefused(.gateway, [], identity)
    try expectRefused(.feedback, [], identity)
  }

  @Test(
    "An invalid list changes nothing, and the operator is told")
  func foreignList() throws {
    defer { service.stop() }
    let device = try service.connect()
    try publish(list(.service, []), as: "good.crl")
    try publish(Data("no list at all".utf8), as: "broken.crl")
    let deadline = EventLoop.wallClockMilliseconds() + 20_000
    while try !auditLines().contains(where: {
      $0.contains("\"event\":\"trust.not-reloaded\"") && $0.contains("broken.crl")
    }) {
      try #require(EventLoop.wallClockMilliseconds() < deadline)
    }
    try device.settle()
  }
}
