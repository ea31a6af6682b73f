import Foundation
import Testing

@Suite("The files of apus cert", .serialized)
struct IssuedCertificateTests {
  private static let openssl = URL(filePath: "/usr/bin/openssl")

  @Test(
    "One file has certificate and key, readable only by its owner, and OpenSSL reads both",
    .timeLimit(.minutes(30)), arguments: [[], ["--rsa", "2048"]])
  func combinedFile(options: [String]) throws {
    let installation = try Installation()
    let file = try installation.providerCertificate(options)
    let mode = try FileManager.default.attributesOfItem(atPath: file)[.posixPermissions] as? Int
    #expect(mode == 0o600)
    let certified = try Programs.run(
      Self.openssl, ["x509", "-in", file, "-noout", "-pubkey"])
    let held = try Programs.run(Self.openssl, ["pkey", "-in", file, "-pubout"])
    #expect(certified == held)
    let subject = try Programs.run(Self.openssl, ["x509", "-in", file, "-noout", "-subject"])
    #expect(subject.contains("UID = \(Installation.topic)"))
    let kind = try Programs.run(
      Self.openssl, ["pkey", "-in", file, "-noout", "-text"])
    #expect(kind.contains(options.isEmpty ? "prime256v1" : "Private-Key: (2048 bit"))
  }

  @Test("Given names are in the certificate, and the gateway takes it", .timeLimit(.minutes(30)))
  func names() throws {
    let installation = try Installation(["--authority-name", "Apus for Apple"])
    let name = "Apple Production IOS Push Services: com.example.app"
    let file = try installation.providerCertificate(["--rsa", "2048", "--common-name", name])
    let shown = try Programs.run(
      Self.openssl, ["x509", "-in", file, "-noout", "-subject", "-issuer", "-nameopt", "RFC2253"])
    #expect(shown.contains("CN=\(name),UID=\(Installation.topic)"))
    #expect(shown.contains("issuer=CN=Apus for Apple\n"))
    try installation.start()
    let frames = HandMadeFrameTests()
    #expect(
      try frames.answer(HandMadeFrameTests.knownBad, installation, certificate: file)
        == "080200000007")
  }

  @Test("The documented command turns that file into PKCS#12", .timeLimit(.minutes(30)))
  func archive() throws {
    let page = try String(
      contentsOf: Programs.root.appending(path: "Documentation/legacy-senders.md"), encoding: .utf8)
    let command = try #require(
      page.matches(of: /`(openssl pkcs12 [^`]+)`/).first.map { String($0.output.1) })
    let installation = try Installation()
    let file = try installation.providerCertificate(["--rsa", "2048"])
    let archive = installation.directory.appending(path: "provider.p12").path
    let line =
      command.replacingOccurrences(of: "FILE.pem", with: file)
      .replacingOccurrences(of: "FILE.p12", with: archive) + " -passout pass:word"
    try Programs.run(URL(filePath: "/bin/sh"), ["-c", line])
    let content = try Programs.run(
      Self.openssl, ["pkcs12", "-legacy", "-in", archive, "-passin", "pass:word", "-nodes"])
    #expect(content.contains("BEGIN CERTIFICATE") && content.contains("BEGIN PRIVATE KEY"))
  }
}
