import Foundation
import Testing

@Suite("Clients of TLS 1.0 on a gateway with +legacy-tls", .serialized)
struct OldClientTests {
  /// The output of `openssl s_client` for a TLS 1.0 handshake with these ciphers.
  private func handshake(_ ciphers: String, with installation: Installation) throws -> String {
    let certificate = try installation.providerCertificate(["--rsa", "2048"])
    return try Programs.run(
      URL(filePath: "/bin/sh"),
      [
        "-c", #"exec timeout 30 "$0" "$@" 2>&1"#, "/usr/bin/openssl", "s_client", "-connect",
        "127.0.0.1:\(installation.gatewayPort)", "-tls1", "-cipher", "\(ciphers):@SECLEVEL=0",
        "-CAfile", installation.authority, "-verify_return_error", "-verify_hostname", "localhost",
        "-cert", certificate, "-key", certificate,
      ])
  }

  @Test(
    "RSA and ECDSA clients each get a certificate of their kind",
    .timeLimit(.minutes(30)))
  func bothKinds() throws {
    let installation = try Installation()
    try installation.start(gateway: "+legacy-tls")
    for (ciphers, bits) in [("aRSA", 2048), ("aECDSA", 256)] {
      let text = try handshake(ciphers, with: installation)
      #expect(text.contains("New, TLSv1.0, Cipher is"))
      #expect(text.contains("Server public key is \(bits) bit"))
      #expect(text.contains("Verification: OK"))
    }
  }

  @Test(
    "Without the RSA certificate only ECDSA clients are served",
    .timeLimit(.minutes(30)))
  func withoutRSA() throws {
    let installation = try Installation()
    for ending in ["crt", "key"] {
      try FileManager.default.removeItem(
        at: installation.directory.appending(path: "server/server-rsa.\(ending)"))
    }
    try installation.start(gateway: "+legacy-tls")
    let trouble = #expect(throws: Trouble.self) { try handshake("aRSA", with: installation) }
    #expect(trouble?.description.contains("handshake failure") == true)
    #expect(try handshake("aECDSA", with: installation).contains("Verification: OK"))
  }
}
