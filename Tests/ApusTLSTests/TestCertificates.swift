import ApusTLS
import Foundation

/// Certificates created by the `openssl` command, so that our code does not check itself. Created once for all tests.
struct TestCertificates: Sendable {
  let directory: URL
  let authority: [UInt8]
  let otherAuthority: [UInt8]
  /// For localhost, push.example.com, *.wild.example.com and 127.0.0.1.
  let server: TLSIdentity
  /// For named.example.com.
  let namedServer: TLSIdentity
  let device: TLSIdentity
  let deviceOfOtherAuthority: TLSIdentity
  let expiredDevice: TLSIdentity
  /// A certificate for servers only, used by a client.
  let serverOnlyDevice: TLSIdentity
  /// Issued by an intermediate authority, which is in the chain.
  let deviceByIntermediate: TLSIdentity
  let intermediate: [UInt8]
  /// With RSA keys from the authority on, for clients without ECDSA. The server is for push.example.com.
  let rsaAuthority: [UInt8]
  let rsaServer: TLSIdentity
  let rsaDevice: TLSIdentity

  private static let shared = Result { try TestCertificates() }

  static func make() throws -> TestCertificates { try shared.get() }

  private init() throws {
    let work = try Workshop()
    directory = work.directory
    authority = try work.authority("ca")
    otherAuthority = try work.authority("other")
    let serverNames =
      "subjectAltName=DNS:localhost,DNS:push.example.com,DNS:*.wild.example.com,IP:127.0.0.1"
    server = try work.issue("server", by: "ca", "extendedKeyUsage=serverAuth", serverNames)
    namedServer = try work.issue(
      "named", by: "ca", "extendedKeyUsage=serverAuth", "subjectAltName=DNS:named.example.com")
    device = try work.issue("device", by: "ca", "extendedKeyUsage=clientAuth")
    deviceOfOtherAuthority = try work.issue("stray", by: "other", "extendedKeyUsage=clientAuth")
    expiredDevice = try work.issue("expired", by: "ca", days: -1, "extendedKeyUsage=clientAuth")
    serverOnlyDevice = try work.issue("wrong", by: "ca", "extendedKeyUsage=serverAuth")
    intermediate = try work.issue(
      "intermediate", by: "ca", "basicConstraints=critical,CA:TRUE", "keyUsage=keyCertSign"
    ).certificateChainPEM
    var leaf = try work.issue("leaf", by: "intermediate", "extendedKeyUsage=clientAuth")
    leaf.certificateChainPEM += intermediate
    deviceByIntermediate = leaf
    rsaAuthority = try work.authority("rsa-ca", key: .rsa)
    rsaServer = try work.issue(
      "rsa-server", by: "rsa-ca", key: .rsa, "extendedKeyUsage=serverAuth",
      "subjectAltName=DNS:push.example.com")
    rsaDevice = try work.issue("rsa-device", by: "rsa-ca", key: .rsa, "extendedKeyUsage=clientAuth")
    try work.run(
      "pkey", "-in", "server.key", "-aes128", "-passout", "pass:secret", "-out", "sealed.key")
  }

  func file(_ name: String) -> String { directory.appendingPathComponent(name).path }

  func bytes(_ name: String) throws -> [UInt8] {
    [UInt8](try Data(contentsOf: directory.appendingPathComponent(name)))
  }
}

private struct Workshop {
  struct Failed: Error { var arguments: [String] }

  /// Arguments that create a key.
  enum Key {
    case p256, rsa

    var arguments: [String] {
      switch self {
      case .p256: ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
      case .rsa: ["-newkey", "rsa:2048"]
      }
    }
  }

  /// One directory for this process, which removes it at its end.
  static let directory = FileManager.default.temporaryDirectory
    .appendingPathComponent("apus-tls-\(UUID().uuidString)")
  let directory = Self.directory

  init() throws {
    atexit { try? FileManager.default.removeItem(at: Workshop.directory) }
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
  }

  func run(_ arguments: String...) throws { try run(arguments) }

  private func run(_ arguments: [String]) throws {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = ["openssl"] + arguments
    process.currentDirectoryURL = directory
    process.standardOutput = FileHandle.nullDevice
    process.standardError = FileHandle.nullDevice
    try process.run()
    process.waitUntilExit()
    guard process.terminationStatus == 0 else { throw Failed(arguments: arguments) }
  }

  func bytes(_ name: String) throws -> [UInt8] {
    [UInt8](try Data(contentsOf: directory.appendingPathComponent(name)))
  }

  func authority(_ name: String, key: Key = .p256) throws -> [UInt8] {
    try run(
      ["req", "-x509"] + key.arguments + [
        "-nodes", "-keyout", "\(name).key", "-out", "\(name).pem", "-subj", "/CN=\(name)",
        "-days", "3650",
      ])
    return try bytes("\(name).pem")
  }

  func issue(
    _ name: String, by issuer: String, days: Int = 3650, key: Key = .p256, _ extensions: String...
  ) throws -> TLSIdentity {
    try run(
      ["req"] + key.arguments + [
        "-nodes", "-keyout", "\(name).key", "-out", "\(name).csr", "-subj", "/CN=\(name)",
      ])
    try extensions.joined(separator: "\n").write(
      to: directory.appendingPathComponent("\(name).ext"), atomically: true, encoding: .utf8)
    try run(
      "x509", "-req", "-in", "\(name).csr", "-CA", "\(issuer).pem", "-CAkey", "\(issuer).key",
      "-days", "\(days)", "-extfile", "\(name).ext", "-out", "\(name).pem")
    return TLSIdentity(
      certificateChainPEM: try bytes("\(name).pem"), privateKeyPEM: try bytes("\(name).key"))
  }
}
