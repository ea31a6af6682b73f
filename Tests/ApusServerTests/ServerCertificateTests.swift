import ApusAdmin
import ApusLog
import ApusLoop
import ApusModel
import ApusTLS
import ApusTesting
import ApusTrust
import ApusWire
import Foundation
import Testing

@testable import ApusDirectory
@testable import ApusServer

/// Files as certbot keeps them: links in `live`, which are replaced, to numbered files in `archive`.
private final class CertbotFolder {
  let folder = TemporaryDirectory()
  let authority: CertificateAuthority
  private(set) var number = 0
  private(set) var leaf: Certificate

  var live: IdentityFiles {
    IdentityFiles(
      certificate: "\(folder.path)/live/fullchain.pem", key: "\(folder.path)/live/privkey.pem")
  }

  init(days: Int = 90) throws {
    authority = try .create(
      commonName: "Public authority", validity: Validity(now: TestDirectory.nowSeconds, days: 365))
    leaf = authority.certificate
    for name in ["live", "archive"] { try Files.makeDirectory("\(folder.path)/\(name)") }
    try renew(days: days)
  }

  private func archived(_ name: String) -> String { "\(folder.path)/archive/\(name)\(number).pem" }

  /// Writes the files of the next certificate; the links still lead to the one before.
  ///
  /// - Parameter isServer: False for the certificate of a device.
  func issue(days: Int = 90, isServer: Bool = true) throws {
    number += 1
    let key = try PrivateKey.generateP256()
    let validity = Validity(now: TestDirectory.nowSeconds, days: days)
    leaf =
      isServer
      ? try authority.issueServer(
        names: ["localhost", "127.0.0.1"], publicKey: key.publicKey, validity: validity)
      : try authority.issueDevice(
        deviceID: DeviceID(1), name: "device", publicKey: key.publicKey, validity: validity)
    try Files.write(
      leaf.pem + authority.certificate.pem, to: archived("fullchain"), isPrivate: false)
    try Files.write(key.pkcs8PEM, to: archived("privkey"), isPrivate: true)
  }

  func link(_ name: String) throws {
    let path = "\(folder.path)/live/\(name).pem"
    try? FileManager.default.removeItem(atPath: path)
    try FileManager.default.createSymbolicLink(
      atPath: path, withDestinationPath: archived(name))
  }

  func renew(days: Int = 90) throws {
    try issue(days: days)
    try link("privkey")
    try link("fullchain")
  }
}

@Suite("Certificates of listeners, from files that somebody else renews")
struct ServerCertificateTests {
  private let folder: CertbotFolder
  private let lines = LogLines()
  private let log: Log

  init() throws {
    folder = try CertbotFolder()
    log = Log(minimumLevel: .info, sink: lines.sink)
  }

  private func certificates() throws -> ServerCertificates {
    try ServerCertificates([folder.live, folder.live], log: log)
  }

  private func leaf(_ certificates: ServerCertificates) throws -> Certificate {
    let pem = try #require(certificates.identity(folder.live)).certificateChainPEM
    return try Certificate(pem: String(decoding: pem, as: UTF8.self))
  }

  private func replaced() -> Int { lines.all("server certificate replaced").count }
  private func failures() -> [String] { lines.all("server certificate not replaced") }

  // MARK: Reading

  @Test("Links that lead to another pair are noticed, and nothing is read as long as they do not")
  func renewed() throws {
    let certificates = try certificates()
    #expect(try leaf(certificates) == folder.leaf)
    #expect(certificates.refresh(readsAll: false) == .init())
    let old = folder.leaf
    try folder.renew()
    #expect(certificates.refresh(readsAll: false) == .init(hasNew: true))
    #expect(try leaf(certificates) == folder.leaf && folder.leaf != old)
    #expect(certificates.refresh(readsAll: true) == .init(), "the same is not new")
    #expect(replaced() == 1 && failures().isEmpty && certificates.problem == nil)
  }

  @Test("Between the two files of a renewal the old pair stays, without a line in the log")
  func between() throws {
    let certificates = try certificates()
    let old = folder.leaf
    try folder.issue()
    try folder.link("privkey")
    #expect(certificates.refresh(readsAll: false) == .init(hasFailed: true))
    #expect(try leaf(certificates) == old)
    try folder.link("fullchain")
    #expect(certificates.refresh(readsAll: false) == .init(hasNew: true))
    #expect(try leaf(certificates) == folder.leaf)
    #expect(failures().isEmpty)
  }

  @Test("A pair that stays broken is reported once for each reason, and used when it is whole")
  func broken() throws {
    let certificates = try certificates()
    let old = folder.leaf
    try folder.issue()
    try folder.link("fullchain")
    for _ in 0..<3 {
      #expect(certificates.refresh(readsAll: true) == .init(hasFailed: true))
    }
    #expect(failures().count == 1)
    #expect(failures().first?.contains("privkey.pem is not the key of the first") == true)
    #expect(certificates.problem?.contains("privkey.pem") == true)
    // Half of it is written.
    let whole = try Files.readText("\(folder.folder.path)/archive/fullchain2.pem")
    try Data(whole.utf8.prefix(200)).write(
      to: URL(filePath: "\(folder.folder.path)/archive/fullchain2.pem"))
    for _ in 0..<2 { _ = certificates.refresh(readsAll: false) }
    #expect(failures().count == 2 && failures()[1].contains("no certificate can be read"))
    #expect(try leaf(certificates) == old)
    try folder.link("privkey")
    try Files.write(
      whole, to: "\(folder.folder.path)/archive/fullchain2.pem", isPrivate: false)
    #expect(certificates.refresh(readsAll: false) == .init(hasNew: true))
    #expect(try leaf(certificates) == folder.leaf && certificates.problem == nil)
    #expect(failures().count == 2 && replaced() == 1)
  }

  @Test("An operator who asks for a reload is told of a failure at once")
  func asked() throws {
    let certificates = try certificates()
    try FileManager.default.removeItem(atPath: folder.live.key)
    #expect(certificates.refresh(readsAll: true, isAsked: true) == .init(hasFailed: true))
    #expect(failures().count == 1)
    #expect(failures()[0].contains("cannot read \(folder.live.key)"), "\(failures())")
  }

  enum Fault: Sendable, CaseIterable {
    case noChain, noKey, otherKey, chainIsKey, keyIsChain, noName, rootFirst
  }

  @Test(
    "A service does not start with files that cannot be presented, and says which",
    arguments: Fault.allCases)
  func refused(fault: Fault) throws {
    let path = folder.folder.path
    var files = folder.live
    let expected: String
    switch fault {
    case .noChain:
      files.certificate = "\(path)/none.pem"
      expected = "cannot read \(path)/none.pem: No such file or directory; the user of the service"
    case .noKey:
      files.key = "\(path)/none.pem"
      expected = "cannot read \(path)/none.pem: No such file or directory; the user of the service"
    case .otherKey:
      try folder.issue()
      try folder.link("privkey")
      expected = "\(files.key) is not the key of the first certificate in \(files.certificate)"
    case .chainIsKey:
      files.certificate = files.key
      expected = "no certificate can be read in \(files.key)"
    case .keyIsChain:
      files.key = files.certificate
      expected = "no key can be read in \(files.certificate)"
    case .noName:
      try folder.issue(isServer: false)
      try folder.link("privkey")
      try folder.link("fullchain")
      expected = "the certificate in \(files.certificate) names no server"
    case .rootFirst:
      try Files.write(
        folder.authority.certificate.pem + folder.leaf.pem, to: "\(path)/wrong.pem",
        isPrivate: false)
      files.certificate = "\(path)/wrong.pem"
      expected = "is not the key of the first certificate in \(path)/wrong.pem"
    }
    let error = #expect(throws: DirectoryProblem.self) {
      try ServerCertificates([files], log: log)
    }
    #expect(error?.description.contains(expected) == true, "\(error?.description ?? "")")
    let start = #expect(throws: DirectoryProblem.self) {
      try TestService(nil, .init { $0.serverCertificates = [.provider: files] })
    }
    #expect(start?.description.hasPrefix("--server-certificate: ") == true)
  }

  // MARK: A service

  /// Trusts the public authority.
  private func connect(
    _ service: TestService, identity: TLSIdentity? = nil, session: TLSSession? = nil
  ) throws -> RawHTTP2Client {
    let roots = Array(folder.authority.certificate.pem.utf8)
    let client = RawHTTP2Client(
      try service.tls(.provider, protocols: ["h2"], identity: identity, session: session) {
        $0.trustRoots = .authorities(PEM: roots)
        $0.keepsSessions = true
      })
    try client.begin()
    return client
  }

  @Test("One listener presents it; clients are verified against the service's own authority")
  func presented() throws {
    let service = try TestService(
      nil, .init { $0.serverCertificates = [.provider: folder.live] })
    defer { service.stop() }
    let identity = try service.directory.providerIdentity()
    let provider = try connect(service, identity: identity)
    #expect(provider.tls.peerCertificateDER == folder.leaf.der)
    let (_, token) = try service.absentDevice()
    let headers = service.pushHeaders(to: token, authorization: nil)
    #expect(try provider.exchange(headers, body: TestService.payload).status == 200)
    // The devices' listener still has the service's own.
    let own = try service.directory.data.serverCertificate()
    #expect(try service.courier().tls.peerCertificateDER == own.der)
    // No client of the public authority is a provider.
    let key = try PrivateKey.generateP256()
    let stranger = try folder.authority.issueServer(
      names: ["localhost"], publicKey: key.publicKey,
      validity: Validity(now: TestDirectory.nowSeconds, days: 1))
    #expect(throws: (any Error).self) {
      try connect(service, identity: TLSIdentity(stranger, key)).ping()
    }
  }

  @Test("After a renewal new handshakes get the new one; connections and tickets stay good")
  func reloaded() throws {
    let bench = try MonitoredService { $0.serverCertificates = [.provider: folder.live] }
    let service = bench.service
    defer { service.stop() }
    let open = try connect(service)
    try open.ping()
    let session = try #require(open.tls.session)
    let old = folder.leaf
    try folder.renew()
    // Nobody tells the service; it looks four times a second.
    try waitUntil("the new certificate") {
      try connect(service).tls.peerCertificateDER == folder.leaf.der
    }
    #expect(old != folder.leaf)
    try open.ping()
    let resumed = try connect(service, session: session)
    #expect(resumed.tls.isResumed)
    try resumed.ping()
    #expect(bench.lines.all("server certificate replaced").count == 1)
    #expect(bench.lines.all("directory reloaded").isEmpty, "nothing else was read again")
  }

  @Test("A broken renewal is shown to the operator, and does not hold up a revocation")
  func brokenLive() throws {
    let bench = try MonitoredService { $0.serverCertificates = [.provider: folder.live] }
    let service = bench.service
    defer { service.stop() }
    let identity = try service.directory.providerIdentity()
    let provider = try connect(service, identity: identity)
    try provider.ping()
    let old = folder.leaf
    try folder.issue()
    try folder.link("fullchain")
    try service.directory.revoke(identity)
    service.service.reload()
    let problem = try #require(try bench.json("v1", "status")["problem"]?.string)
    #expect(problem.hasPrefix("a listener keeps its old certificate: "), "\(problem)")
    #expect(problem.contains("privkey.pem is not the key"), "\(problem)")
    #expect(try bench.get("readyz").hasPrefix("ready\nwarning: a listener keeps"))
    #expect(throws: (any Error).self) { try connect(service, identity: identity).ping() }
    #expect(try connect(service).tls.peerCertificateDER == old.der)
    try folder.link("privkey")
    service.service.reload()
    #expect(try bench.json("v1", "status")["problem"]?.string == nil)
    #expect(try connect(service).tls.peerCertificateDER == folder.leaf.der)
  }

  @Test("The administration over TLS presents it, and the next one after a renewal")
  func administration() throws {
    let service = try TestService(
      nil,
      .init {
        $0.admin = AdminConfiguration(
          hasSocket: false, addresses: [.loopbackIPv4(port: 0)], serverCertificate: folder.live,
          version: "1.2.3")
      })
    defer { service.stop() }
    let configuration = TLSClientConfiguration(
      trustRoots: .authorities(PEM: Array(folder.authority.certificate.pem.utf8)),
      serverName: "localhost")
    let address = service.service.adminAddresses[0]
    let old = folder.leaf
    #expect(try RawTLSClient(address, configuration).peerCertificateDER == old.der)
    try folder.renew()
    service.service.reload()
    #expect(try RawTLSClient(address, configuration).peerCertificateDER == folder.leaf.der)
  }

  @Test("Commands on this machine learn its name, unless the service's own authority issued it")
  func announced() throws {
    let service = try TestService(
      nil, .init { $0.serverCertificates = [.provider: folder.live] })
    let data = service.directory.data
    let listeners = try #require(data.serviceAddresses?.listeners)
    for listener in listeners {
      #expect(listener.serverName == (listener.kind == .provider ? "localhost" : nil))
    }
    service.stop()
    let own = try TestService(
      service.directory, .init { $0.serverCertificates = [.provider: data.serverRSAFiles] })
    defer { own.stop() }
    let others = try #require(data.serviceAddresses?.listeners)
    #expect(others.allSatisfy { $0.serverName == nil } && others.count == listeners.count)
  }

  @Test("Its end is in log, metrics and lists, until it is renewed")
  func ending() throws {
    try folder.renew(days: 5)
    let bench = try MonitoredService { $0.serverCertificates = [.courier: folder.live] }
    let service = bench.service
    defer { service.stop() }
    service.service.reload()
    let warnings = bench.lines.all("certificate expires soon kind=server name=localhost")
    #expect(warnings.count == 1, "\(warnings)")
    #expect(warnings.first?.contains("renew the files of --server-certificate") == true)
    let sample = #"apus_certificate_expiry_seconds{kind="server",name="localhost"}"#
    #expect(try bench.metrics()[sample] == "\(folder.leaf.notAfter)")
    #expect(try bench.json("v1", "status")["certificates_ending"]?.integer == 1)
    #expect(try bench.get("v1", "certificates").contains(folder.leaf.fingerprint.hex))
    try folder.renew()
    service.service.reload()
    #expect(try bench.metrics()[sample] == "\(folder.leaf.notAfter)")
    #expect(try bench.json("v1", "status")["certificates_ending"]?.integer == 0)
  }
}
