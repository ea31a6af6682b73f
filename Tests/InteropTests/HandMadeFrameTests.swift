import Foundation
import Testing

@Suite("Handmade frames, sent with openssl s_client", .serialized)
struct HandMadeFrameTests {
  static let foreignToken = BinaryClientTests.foreignToken

  /// `{"aps":{"alert":"hi"},"n":N}`
  static func payload(_ n: Int) -> String {
    Data(#"{"aps":{"alert":"hi"},"n":\#(n)}"#.utf8).map { String(format: "%02x", $0) }.joined()
  }

  // Payloads of 28 (1c) bytes, identifier 1234, expiration in 2020 or none.
  static func command0(_ token: String, _ n: Int) -> String { "000020\(token)001c\(payload(n))" }
  static func command1(_ token: String, _ n: Int) -> String {
    "01000004d25f5e10000020\(token)001c\(payload(n))"
  }
  static func command2(_ token: String, _ n: Int) -> String {
    "0200000054010020\(token)02001c\(payload(n))030004000004d20400045f5e10000500010a"
  }
  static func shortCommand2(_ token: String, _ n: Int) -> String {
    "0200000049010020\(token)02001c\(payload(n))030004000004d2"
  }

  /// Both lengths are zero: pushy 0.4 sends this to learn whether all notifications before it were accepted.
  static let knownBad = "020000001803000400000007010000020000040004000000000500010a"

  @Test("Good frames are accepted silently, a bad one gets an error packet")
  func answers() throws {
    let installation = try Installation()
    try installation.start()
    let phone = try installation.device("phone")
    let token = try phone.connect()
    let good =
      Self.command0(token, 1) + Self.command1(token, 2) + Self.command2(token, 3)
      + Self.shortCommand2(token, 4)
    #expect(try answer(good + Self.knownBad, installation) == "080200000007")
    // Nothing after the bad frame is accepted.
    #expect(try answer(Self.knownBad + Self.command2(token, 5), installation) == "080200000007")
    #expect(try answer(Self.command2(token, 6) + Self.knownBad, installation) == "080200000007")
    #expect(try phone.shown(atLeast: 5) == [1, 2, 3, 4, 6])
  }

  @Test("Error packets for bad frames, byte for byte")
  func refusals() throws {
    let installation = try Installation()
    try installation.start()
    for (frame, expected) in [
      (Self.command0(Self.foreignToken, 1), ""),
      (Self.command1(Self.foreignToken, 1), "0808000004d2"),
      (Self.command2(Self.foreignToken, 1), "0808000004d2"),
      (Self.shortCommand2(Self.foreignToken, 1), "0808000004d2"),
      // An empty frame, and an undefined command.
      ("0200000000", "080200000000"),
      ("03", "088000000000"),
    ] {
      #expect(try answer(frame, installation) == expected, "\(frame)")
    }
  }

  @Test("A confirming listener confirms each good frame with an identifier")
  func confirmation() throws {
    let installation = try Installation()
    try installation.start(gateway: "+confirm")
    let phone = try installation.device("phone")
    let token = try phone.connect()
    #expect(
      try answer(Self.command1(token, 1) + Self.command2(token, 2) + Self.knownBad, installation)
        == "0800000004d2" + "0800000004d2" + "080200000007")
    #expect(try phone.shown(atLeast: 2) == [1, 2])
  }

  @Test("TLS 1.0 works only on listeners with +legacy-tls")
  func oldTLS() throws {
    let installation = try Installation()
    try installation.start()
    let old = ["-tls1", "-cipher", "DEFAULT@SECLEVEL=0"]
    #expect(throws: Trouble.self) { try answer(Self.knownBad, installation, old) }
    installation.service?.stop()
    try installation.start(gateway: "+legacy-tls")
    #expect(try answer(Self.knownBad, installation, old) == "080200000007")
    // New versions still work.
    for version in ["-tls1_2", "-tls1_3"] {
      #expect(try answer(Self.knownBad, installation, [version]) == "080200000007", "\(version)")
    }
  }

  /// Sends frames and returns everything the service writes until it closes the connection, in hexadecimal.
  func answer(
    _ frames: String, _ installation: Installation, _ extra: [String] = [],
    certificate: String? = nil
  ) throws -> String {
    let input = installation.directory.appending(path: "frames")
    let digits = Array(frames)
    let octets = stride(from: 0, to: digits.count, by: 2).compactMap {
      UInt8(String(digits[$0...$0 + 1]), radix: 16)
    }
    try Data(octets).write(to: input)
    let certificate = try certificate ?? installation.providerCertificate()
    let printed = try Programs.bytes(
      URL(filePath: "/usr/bin/env"),
      [
        "openssl", "s_client", "-quiet", "-connect", "localhost:\(installation.gatewayPort)",
        "-CAfile", installation.authority, "-verify_return_error", "-verify_quiet",
        "-verify_hostname", "localhost",
        "-cert", certificate, "-key", certificate,
      ] + extra, input: input)
    return printed.map { String(format: "%02x", $0) }.joined()
  }
}
