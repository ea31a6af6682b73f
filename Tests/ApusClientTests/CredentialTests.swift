import ApusModel
import ApusTrust
import Foundation
import Testing

@testable import ApusClient

@Suite("Credentials in files")
final class CredentialTests {
  private let folder: URL

  init() throws {
    folder = FileManager.default.temporaryDirectory
      .appendingPathComponent("apus-credentials-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
  }

  deinit { try? FileManager.default.removeItem(at: folder) }

  private func write(_ text: String, _ name: String) throws -> String {
    let file = folder.appendingPathComponent(name)
    try Data(text.utf8).write(to: file)
    return file.path
  }

  private func credentials(
    _ credential: ClientConfiguration.Credential, tokenFile: String? = nil
  ) throws -> ClientCredentials {
    var configuration = ClientConfiguration(
      endpoint: Endpoint(host: "localhost", port: 1), credential: credential)
    configuration.tokenFile = tokenFile
    return try ClientCredentials(configuration)
  }

  private func identity() throws -> (certificate: String, key: String) {
    let now = Int64(Date().timeIntervalSince1970)
    let authority = try CertificateAuthority.create(
      commonName: "Authority", validity: Validity(now: now, days: 1))
    let key = try PrivateKey.generateP256()
    let certificate = try authority.issueServer(
      names: ["localhost"], publicKey: key.publicKey, validity: Validity(now: now, days: 1))
    return (certificate.pem, key.pkcs8PEM)
  }

  // MARK: Reload

  @Test("A replaced key signs the next token")
  func keyReplaced() throws {
    let first = try PrivateKey.generateP256()
    let second = try PrivateKey.generateP256()
    let path = try write(first.pkcs8PEM, "key.p8")
    let credentials = try credentials(
      .providerTokenFile(path: path, keyID: "ABCDE12345", teamID: "TEAM123456"))
    #expect(try signer(credentials, [first, second]) == 0)
    #expect(credentials.reload(nowMilliseconds: 1000) == .unchanged)
    _ = try write(second.pkcs8PEM, "key.p8")
    #expect(credentials.reload(nowMilliseconds: 1999) == .unchanged, "checked once a second")
    #expect(credentials.reload(nowMilliseconds: 2000) == .changed)
    #expect(try signer(credentials, [first, second]) == 1)
  }

  /// The index of the key that signed the token.
  private func signer(_ credentials: ClientCredentials, _ keys: [PrivateKey]) throws -> Int? {
    let field = try #require(credentials.authorization())
    let text = Array(field.dropFirst(7))
    let token = try ProviderToken.parse(text.span)
    return try keys.firstIndex {
      try ProviderKeyVerifier(publicKey: $0.publicKey).verifies(token, in: text.span)
    }
  }

  @Test("Invalid files change nothing, and are checked again when they change again")
  func halfWritten() throws {
    let (certificate, key) = try identity()
    let (otherCertificate, otherKey) = try identity()
    let paths = (try write(certificate, "a.crt"), try write(key, "a.key"))
    let credentials = try credentials(
      .certificateFiles(certificatePath: paths.0, keyPath: paths.1))
    let before = credentials.context
    _ = try write(otherCertificate, "a.crt")
    guard case .failed(let text) = credentials.reload(nowMilliseconds: 1000) else {
      Issue.record("a certificate with another's key was accepted")
      return
    }
    #expect(!text.isEmpty)
    #expect(credentials.context === before)
    _ = try write(otherKey, "a.key")
    #expect(credentials.reload(nowMilliseconds: 2000) == .changed)
    #expect(credentials.context !== before)
  }

  @Test("A missing file is reported when the client is created")
  func missing() throws {
    let error = #expect(throws: ClientConfigurationError.self) {
      _ = try credentials(.pkcs12File(path: "/nowhere/at/all.p12", password: ""))
    }
    #expect(error?.description.contains("/nowhere/at/all.p12") == true)
  }

  // MARK: Tokens

  @Test("Processes with the same token file share one token, and renew it together")
  func tokenFile() throws {
    let key = try PrivateKey.generateP256()
    let path = folder.appendingPathComponent("token").path
    func source() -> ProviderTokenSource {
      ProviderTokenSource(
        key: key, keyID: "ABCDE12345", teamID: "TEAM123456", file: TokenFile(path: path))
    }
    var first = source()
    var second = source()
    let token = try first.authorization(nowSeconds: 1_700_000_000)
    // A little later, in the next ten minutes.
    #expect(try second.authorization(nowSeconds: 1_700_001_000) == token)
    let next = try second.authorization(nowSeconds: 1_700_000_000 + 3600)
    #expect(next != token)
    #expect(try first.authorization(nowSeconds: 1_700_000_000 + 3601) == next)
    let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions]
    #expect(mode as? Int == 0o600)
  }

  @Test(
    "File contents that are not a token of this key are replaced",
    arguments: ["", "rubbish", "a.b.c", "other key", "other id"])
  func foreignToken(kind: String) throws {
    let key = try PrivateKey.generateP256()
    let path = folder.appendingPathComponent("token").path
    let foreign =
      switch kind {
      case "other key":
        try ProviderToken.sign(
          teamID: "TEAM123456", keyID: "ABCDE12345", issuedAt: 1_700_000_000,
          key: PrivateKey.generateP256())
      case "other id":
        try ProviderToken.sign(
          teamID: "TEAM123456", keyID: "OTHER12345", issuedAt: 1_700_000_000, key: key)
      default: kind
      }
    _ = try write(foreign, "token")
    var source = ProviderTokenSource(
      key: key, keyID: "ABCDE12345", teamID: "TEAM123456", file: TokenFile(path: path))
    let field = try source.authorization(nowSeconds: 1_700_000_100)
    let text = Array(field.dropFirst(7))
    #expect(
      try ProviderKeyVerifier(publicKey: key.publicKey)
        .verifies(ProviderToken.parse(text.span), in: text.span))
    #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == Data(text))
  }

  @Test("A token file that cannot be written only prevents sharing")
  func noFile() throws {
    var source = ProviderTokenSource(
      key: try PrivateKey.generateP256(), keyID: "ABCDE12345", teamID: "TEAM123456",
      file: TokenFile(path: "/nowhere/at/all/token"))
    #expect(try !source.authorization(nowSeconds: 1_700_000_000).isEmpty)
  }

  @Test("All clients of a process with the same key share one token")
  func shared() throws {
    let key = Array(try PrivateKey.generateP256().pkcs8PEM.utf8)
    let credential = ClientConfiguration.Credential.providerToken(
      keyPEM: key, keyID: "ABCDE12345", teamID: "TEAM123456")
    let (first, second) = (try credentials(credential), try credentials(credential))
    #expect(first.authorization() == second.authorization())
    let other = try credentials(
      .providerToken(keyPEM: key, keyID: "ABCDE12345", teamID: "TEAM654321"))
    #expect(first.authorization() != other.authorization())
  }

  @Test("A token that the service considers expired is replaced by one of the service's time")
  func clocks() throws {
    let credentials = try credentials(
      .providerToken(
        keyPEM: Array(try PrivateKey.generateP256().pkcs8PEM.utf8), keyID: "ABCDE12345",
        teamID: "TEAM123456"))
    func issuedAt() throws -> Int64 {
      let text = Array(try #require(credentials.authorization()).dropFirst(7))
      return try ProviderToken.parse(text.span).issuedAt
    }
    let before = try issuedAt()
    #expect(!credentials.renewAuthorization(), "this clock allows no newer token")
    let now = Int64(Date().timeIntervalSince1970)
    credentials.noteServerClock(now + 7200)
    #expect(credentials.clockSkewSeconds.map { (7199...7201).contains($0) } == true)
    #expect(try issuedAt() > before + 6000)
    credentials.noteServerClock(now + 5)
    #expect(try issuedAt() <= now)
  }

  @Test("Tokens are identical if OpenSSL supports deterministic signatures")
  func deterministic() throws {
    let key = try PrivateKey.generateP256()
    let tokens = try (0..<3).map { _ in
      try ProviderToken.sign(
        teamID: "TEAM123456", keyID: "ABCDE12345", issuedAt: 1_700_000_000, key: key)
    }
    // OpenSSL 3.2 and later repeat a signature; with older versions all differ.
    #expect([1, 3].contains(Set(tokens).count))
    for token in tokens {
      let text = Array(token.utf8)
      #expect(
        try ProviderKeyVerifier(publicKey: key.publicKey)
          .verifies(ProviderToken.parse(text.span), in: text.span))
    }
  }

  @Test("The binary client reloads changed files, and continues if they are invalid")
  func binaryFiles() throws {
    func put(_ identity: (certificate: String, key: String)) throws -> String {
      try write(identity.certificate + identity.key, "sender.pem")
    }
    let path = try put(identity())
    var sender = try BinaryIdentity(
      endpoint: Endpoint(host: "localhost", port: Endpoint.gatewayPort), serverName: nil,
      trustRoots: .system,
      credential: .certificateFiles(certificatePath: path, keyPath: path))
    let first = sender.context
    sender.reload()
    #expect(sender.context === first)
    _ = try write("half of it", "sender.pem")
    sender.reload()
    #expect(sender.context === first)
    _ = try put(identity())
    sender.reload()
    #expect(sender.context !== first)
  }

  // MARK: PKCS#12

  @Test(
    "A .p12 file opens with its password, even with old encryption",
    arguments: [[], ["-legacy"], ["-keypbe", "PBE-SHA1-3DES", "-certpbe", "PBE-SHA1-3DES"]])
  func pkcs12(means: [String]) throws {
    let (certificate, key) = try identity()
    let pem = try write(certificate + key, "identity.pem")
    let path = folder.appendingPathComponent("identity.p12").path
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/openssl")
    process.arguments =
      ["pkcs12", "-export", "-in", pem, "-out", path, "-passout", "pass:grün"] + means
    try process.run()
    process.waitUntilExit()
    #expect(process.terminationStatus == 0)
    let bytes = [UInt8](try Data(contentsOf: URL(fileURLWithPath: path)))
    let opened = try PKCS12(bytes.span, password: "grün")
    #expect(String(decoding: opened.certificatePEM, as: UTF8.self) == certificate)
    #expect(String(decoding: opened.keyPEM, as: UTF8.self) == key)
    _ = try credentials(.pkcs12File(path: path, password: "grün"))
    _ = try credentials(.pkcs12(bytes, password: "grün"))
    // Also valid for the binary interface, and not a key for provider tokens.
    func binary(_ credential: ClientConfiguration.Credential) throws {
      let endpoint = Endpoint(host: "localhost", port: Endpoint.gatewayPort)
      _ = try BinaryIdentity(
        endpoint: endpoint, serverName: nil, trustRoots: .system, credential: credential)
      _ = try FeedbackReader(FeedbackConfiguration(endpoint: endpoint, credential: credential))
    }
    try binary(.pkcs12File(path: path, password: "grün"))
    try binary(.pkcs12(bytes, password: "grün"))
    try binary(.certificateFiles(certificatePath: pem, keyPath: pem))
    #expect(throws: ClientConfigurationError.self) {
      try binary(.pkcs12(bytes, password: "blau"))
    }
    #expect(throws: ClientConfigurationError.self) {
      try binary(
        .providerToken(keyPEM: Array(key.utf8), keyID: "ABCDE12345", teamID: "TEAM123456"))
    }
    #expect(throws: TrustFault.lockedPKCS12) { try PKCS12(bytes.span, password: "blau") }
    #expect(throws: TrustFault.malformedPKCS12) {
      try PKCS12(bytes.span.extracting(0..<bytes.count / 2), password: "grün")
    }
  }
}
