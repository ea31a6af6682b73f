import Foundation
import Testing

/// Scans the TLS of each listener in the default configuration.
@Suite("sslscan finds nothing weak", .serialized)
struct ScanTests {
  @Test("No listener has a version before 1.2, a weak cipher, or renegotiation")
  func listeners() throws {
    let installation = try Installation()
    try installation.start()
    for port in [
      installation.providerPort, installation.courierPort, installation.gatewayPort,
      installation.feedbackPort,
    ] {
      let report = try Programs.run(
        URL(filePath: "/usr/bin/sslscan"),
        ["--no-colour", "--show-certificate", "--sni-name=localhost", "127.0.0.1:\(port)"])
      let lines = report.split(separator: "\n").map(String.init)
      for version in ["SSLv2", "SSLv3", "TLSv1.0", "TLSv1.1"] {
        #expect(lines.contains { $0.hasPrefix(version) && $0.hasSuffix("disabled") }, "\(port)")
      }
      // The scanner offers no ALPN protocol, so the courier listener refuses its handshakes.
      if port == installation.courierPort {
        #expect(!lines.contains { $0.hasPrefix("TLSv1") && $0.hasSuffix("enabled") })
        continue
      }
      #expect(lines.contains { $0.hasPrefix("TLSv1.3") && $0.hasSuffix("enabled") })
      let ciphers = lines.filter { $0.hasPrefix("Accepted") || $0.hasPrefix("Preferred") }
      #expect(!ciphers.isEmpty)
      for cipher in ciphers {
        for weak in ["RC4", "DES", "NULL", "EXP", "MD5", "ADH", "AECDH", "CBC", " 40 ", " 56 "] {
          #expect(!cipher.contains(weak), "port \(port): \(cipher)")
        }
        // Forward secrecy: all TLS 1.3 ciphers have it, and TLS 1.2 ciphers that begin with ECDHE.
        #expect(cipher.contains("TLSv1.3") || cipher.contains("ECDHE"), "\(cipher)")
      }
      #expect(lines.contains("Session renegotiation not supported"))
      #expect(!lines.contains { $0.contains("vulnerable") && !$0.contains("not vulnerable") })
    }
  }
}
