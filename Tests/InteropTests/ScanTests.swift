import Foundation
import Testing

/// What a scanner of TLS finds at each door, in the default configuration.
@Suite("sslscan finds nothing weak", .serialized)
struct ScanTests {
  @Test("No listener has a version before 1.2, a weak cipher, or renegotiation")
  func doors() throws {
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
      // The scanner names no protocol, and to such clients the devices' door speaks with none.
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
        // Forward secrecy: all of TLS 1.3 has it, and before it what begins with ECDHE.
        #expect(cipher.contains("TLSv1.3") || cipher.contains("ECDHE"), "\(cipher)")
      }
      #expect(lines.contains("Session renegotiation not supported"))
      #expect(!lines.contains { $0.contains("vulnerable") && !$0.contains("not vulnerable") })
    }
  }
}
