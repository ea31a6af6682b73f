import Foundation
import Testing

@Suite("The operator's own authority, run with openssl", .serialized)
struct OutsideAuthorityTests {
  /// The commands of the document, in order; one block is `apus serve`.
  ///
  /// Read from the document itself: a documented command that does not work is a defect.
  private static func blocks() throws -> [String] {
    let text = try String(
      contentsOf: Programs.root.appending(path: "Documentation/outside-authority.md"),
      encoding: .utf8)
    return text.components(separatedBy: "```").filter { $0.hasPrefix("sh\n") }
      .map { String($0.dropFirst(3)) }
  }

  private func run(_ script: String, in folder: URL, apus: URL) throws -> String {
    let path = folder.appending(path: "script.sh")
    try ("set -e\n" + script).write(to: path, atomically: true, encoding: .utf8)
    let tools = apus.deletingLastPathComponent().path
    return try Programs.run(
      URL(filePath: "/bin/sh"),
      [
        "-c",
        #"cd "$0"; PATH="$1:$PATH" timeout 120 sh script.sh 2>log || { cat log; exit 1; }"#,
        folder.path, tools,
      ])
  }

  @Test("The document's commands work as printed", .timeLimit(.minutes(30)))
  func document() throws {
    let blocks = try Self.blocks()
    let start = try #require(blocks.firstIndex(of: "apus serve\n"))
    let apus = try Programs.product("apus")
    let folder = FileManager.default.temporaryDirectory.appending(
      path: "apus-outside-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    let prepared = try run(blocks[..<start].joined(separator: "\n"), in: folder, apus: apus)
    #expect(prepared.contains("service-above.crt"))

    let installation = try Installation(existing: folder.appending(path: "apus-data"))
    try installation.start()
    let rest = blocks[(start + 1)...].joined(separator: "\n")
    #expect(rest.contains("localhost:2197") && rest.contains("localhost:5223"))
    let said = try run(
      rest.replacingOccurrences(
        of: "localhost:2197", with: "localhost:\(installation.providerPort)"
      )
      .replacingOccurrences(
        of: "localhost:5223", with: "localhost:\(installation.courierPort)"),
      in: folder, apus: apus)
    #expect(said.contains("Hello from outside"))
    #expect(said.contains("clock.crt: OK\nhall.crt: OK\nproxy.crt: OK\n"))
    // The handshake was refused, and the audit log says so.
    #expect(said.contains("refused\n") && said.contains("handshake.refused"))
  }

  @Test(
    "A service without its certificate fails to start and names what is missing",
    .timeLimit(.minutes(30)))
  func withoutCertificate() throws {
    let blocks = try Self.blocks()
    let apus = try Programs.product("apus")
    let folder = FileManager.default.temporaryDirectory.appending(
      path: "apus-outside-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    let said = try run(
      blocks[..<2].joined(separator: "\n")
        + """

        apus serve --ephemeral 2>&1 && exit 1
        apus cert 2>&1 && exit 1
        apus device add 2>&1 && exit 1
        apus rotate service-authority 2>&1 && exit 1
        apus cert --import root.pem 2>&1 && exit 1
        openssl x509 -req -in apus-data/server/server.csr -CA devices.pem -CAkey devices.key \
          -copy_extensions copyall -out wrong.crt
        apus cert --import wrong.crt 2>&1 && exit 1
        openssl x509 -req -in apus-data/server/server.csr -CA push.pem -CAkey push.key \
          -out plain.crt
        apus cert --import plain.crt 2>&1 && exit 1
        true
        """, in: folder, apus: apus)
    for part in [
      "has no certificate yet", "service.key", "devices.key", "--authority",
      "no key here matches the certificate", "did not issue the certificate", "subjectAltName",
    ] {
      #expect(said.contains(part), "\(part)")
    }
  }
}
