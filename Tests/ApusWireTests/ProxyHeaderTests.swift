import ApusModel
import Testing

@testable import ApusWire

/// Headers by hand, from proxy-protocol.txt.
@Suite("The header in which a proxy names its client")
struct ProxyHeaderTests {
  private static let signature: [UInt8] = [
    0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d, 0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a,
  ]
  /// 192.0.2.7:56324 to 198.51.100.9:443.
  private static let ipv4: [UInt8] = [
    192, 0, 2, 7, 198, 51, 100, 9, 0xdc, 0x04, 0x01, 0xbb,
  ]
  /// [2001:db8::7]:56324 to [2001:db8:1::9]:443.
  private static let ipv6: [UInt8] =
    [0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]
    + [0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9] + [0xdc, 0x04, 0x01, 0xbb]
  private static let named = ProxiedAddress.ipv4(0xc000_0207, port: 56324)
  private static let namedIPv6 = ProxiedAddress.ipv6(
    high: 0x2001_0db8_0000_0000, low: 7, port: 56324)
  /// PP2_TYPE_AUTHORITY with `a.example`, and PP2_TYPE_CRC32C with a wrong checksum: over TCP it is not needed.
  private static let tlvs: [UInt8] =
    [0x02, 0, 9] + Array("a.example".utf8) + [0x03, 0, 4, 1, 2, 3, 4]

  private static func binary(_ command: UInt8, _ family: UInt8, _ block: [UInt8]) -> [UInt8] {
    signature + [command, family, UInt8(block.count >> 8), UInt8(block.count & 0xff)] + block
  }

  /// Reads the header alone, all its beginnings, and the header with a client's bytes behind it.
  private func expect(_ header: [UInt8], _ outcome: (Int) -> ProxyHeader.Reading) {
    let expected = outcome(header.count)
    for count in 0..<header.count {
      let part = Array(header[..<count])
      #expect(ProxyHeader.read(part.span) == .incomplete, "\(count) bytes")
    }
    #expect(ProxyHeader.read(header.span) == expected)
    let hello: [UInt8] = header + [0x16, 0x03, 0x01, 0x0d, 0x0a]
    #expect(ProxyHeader.read(hello.span) == expected)
  }

  private func expectFault(_ header: [UInt8], _ fault: ProxyHeaderFault) {
    #expect(ProxyHeader.read(header.span) == .malformed(fault))
  }

  // MARK: Version 2

  @Test("A binary header names the client by either family, split at every byte")
  func relayed() {
    expect(Self.binary(0x21, 0x11, Self.ipv4)) { .relayed(Self.named, byteCount: $0) }
    expect(Self.binary(0x21, 0x21, Self.ipv6)) { .relayed(Self.namedIPv6, byteCount: $0) }
  }

  @Test("What follows the addresses is skipped, up to 4,096 bytes of all")
  func skipped() {
    expect(Self.binary(0x21, 0x11, Self.ipv4 + Self.tlvs)) {
      .relayed(Self.named, byteCount: $0)
    }
    expect(Self.binary(0x21, 0x21, Self.ipv6 + Self.tlvs)) {
      .relayed(Self.namedIPv6, byteCount: $0)
    }
    let most = [UInt8](repeating: 0, count: 4096 - 12)
    expect(Self.binary(0x21, 0x11, Self.ipv4 + most)) { .relayed(Self.named, byteCount: $0) }
    #expect(Self.binary(0x21, 0x11, Self.ipv4 + most).count == Limits.proxyHeaderBytes)
    expectFault(Array(Self.binary(0x21, 0x11, Self.ipv4 + most + [0])[..<16]), .tooLong)
    expectFault(Array(Self.binary(0x20, 0x00, Self.ipv4 + most + [0])[..<16]), .tooLong)
  }

  @Test("LOCAL, UNSPEC and UNIX addresses leave the connection its own address")
  func direct() {
    expect(Self.binary(0x20, 0x00, [])) { .direct(byteCount: $0) }
    // A receiver of LOCAL ignores everything else, even what it does not know.
    expect(Self.binary(0x20, 0x11, Self.ipv4)) { .direct(byteCount: $0) }
    expect(Self.binary(0x20, 0xff, [1, 2, 3])) { .direct(byteCount: $0) }
    expect(Self.binary(0x21, 0x00, [])) { .direct(byteCount: $0) }
    expect(Self.binary(0x21, 0x00, Self.tlvs)) { .direct(byteCount: $0) }
    expect(Self.binary(0x21, 0x31, [UInt8](repeating: 0x2f, count: 216))) {
      .direct(byteCount: $0)
    }
  }

  @Test("A binary header that is not by the specification is malformed as soon as that is known")
  func malformed() {
    expectFault(Self.signature + [0x11], .version(1))
    expectFault(Self.signature + [0x31], .version(3))
    expectFault(Self.signature + [0x22], .command(2))
    for family: UInt8 in [0x01, 0x10, 0x12, 0x22, 0x32, 0x41] {
      expectFault(Self.binary(0x21, family, Self.ipv6), .family(family))
    }
    expectFault(Self.binary(0x21, 0x11, Array(Self.ipv4.dropLast())), .tooShort)
    expectFault(Self.binary(0x21, 0x21, Self.ipv4), .tooShort)
    expectFault(Self.binary(0x21, 0x31, Self.ipv6), .tooShort)
    for place in Self.signature.indices.dropFirst() {
      var wrong = Self.signature
      wrong[place] ^= 1
      expectFault(Array(wrong[...place]), .noSignature)
    }
  }

  // MARK: Version 1

  @Test(
    "A line names the client by either family, split at every byte",
    arguments: [
      ("TCP4 192.0.2.7 198.51.100.9 56324 443", Self.named),
      ("TCP4 0.0.0.0 255.255.255.255 0 65535", .ipv4(0, port: 0)),
      ("TCP6 2001:db8::7 2001:db8:1::9 56324 443", Self.namedIPv6),
      ("TCP6 2001:DB8:0:0:0:0:0:7 ::1 56324 443", Self.namedIPv6),
      ("TCP6 :: :: 1 2", .ipv6(high: 0, low: 0, port: 1)),
      ("TCP6 1:: ::1 1 2", .ipv6(high: 0x0001_0000_0000_0000, low: 0, port: 1)),
      (
        "TCP6 1:2:3:4:5:6:7:: 1::8 1 2",
        .ipv6(high: 0x0001_0002_0003_0004, low: 0x0005_0006_0007_0000, port: 1)
      ),
      ("TCP6 ::ffff:192.0.2.7 ::1 1 2", .ipv6(high: 0, low: 0xffff_c000_0207, port: 1)),
      (
        "TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff "
          + "65535 65535", .ipv6(high: .max, low: .max, port: 65535)
      ),
    ] as [(String, ProxiedAddress)])
  func line(text: String, expected: ProxiedAddress) {
    expect(Array("PROXY \(text)\r\n".utf8)) { .relayed(expected, byteCount: $0) }
  }

  @Test(
    "UNKNOWN leaves the connection its own address, whatever else the line says",
    arguments: [
      "UNKNOWN", "UNKNOWN ", "UNKNOWN ::1 ::1 1 2", "UNKNOWN what\never",
      "UNKNOWN " + String(repeating: "f", count: 107 - 16),
    ])
  func unknown(text: String) {
    expect(Array("PROXY \(text)\r\n".utf8)) { .direct(byteCount: $0) }
  }

  @Test(
    "A line that is not by the grammar is malformed",
    arguments: [
      "", "TCP4", "TCP5 192.0.2.7 192.0.2.8 1 2", "UNKNOWNS", "tcp4 192.0.2.7 192.0.2.8 1 2",
      " TCP4 192.0.2.7 192.0.2.8 1 2", "TCP4  192.0.2.7 192.0.2.8 1 2",
      "TCP4 192.0.2.7 192.0.2.8 1", "TCP4 192.0.2.7 192.0.2.8 1 2 ",
      "TCP4 192.0.2.7 192.0.2.8 1 2 3", "TCP4 192.0.2.7 192.0.2.8 1 65536",
      "TCP4 192.0.2.7 192.0.2.8 99999999999 2", "TCP4 192.0.2.7 192.0.2.8 01 2",
      "TCP4 192.0.2.7 192.0.2.8 +1 2", "TCP4 192.0.2.7 192.0.2.8 -1 2",
      "TCP4 192.0.2.256 192.0.2.8 1 2", "TCP4 192.0.2.07 192.0.2.8 1 2",
      "TCP4 192.0.2 192.0.2.8 1 2", "TCP4 192.0.2.7.1 192.0.2.8 1 2", "TCP4 ::1 ::1 1 2",
      "TCP4 192.0.2.7 ::1 1 2", "TCP4 192.0.2.7 host 1 2", "TCP4 192.0.2.7\t192.0.2.8 1 2",
      "TCP6 192.0.2.7 192.0.2.8 1 2", "TCP6 1:2:3:4:5:6:7 ::1 1 2",
      "TCP6 1:2:3:4:5:6:7:8:9 ::1 1 2", "TCP6 1:2:3:4:5:6:7::8 ::1 1 2", "TCP6 1::2::3 ::1 1 2",
      "TCP6 ::: ::1 1 2", "TCP6 1: ::1 1 2", "TCP6 :1 ::1 1 2", "TCP6 12345:: ::1 1 2",
      "TCP6 g:: ::1 1 2", "TCP6 fe80::1%eth0 ::1 1 2", "TCP6 ::192.0.2 ::1 1 2",
      "TCP6 1:2:3:4:5:6:7:192.0.2.7 ::1 1 2", "TCP6 [::1] ::1 1 2",
    ])
  func malformedLine(text: String) {
    expectFault(Array("PROXY \(text)\r\n".utf8), .line)
  }

  @Test("A line ends with CR and LF, within 107 bytes")
  func lineEnd() {
    expectFault(Array("PROXY TCP4 192.0.2.7 192.0.2.8 1 2\r ".utf8), .line)
    expectFault(Array("PROXY UNKNOWN\r\r\n".utf8), .line)
    let long = Array("PROXY UNKNOWN ".utf8) + [UInt8](repeating: 0x66, count: 92)
    #expect(ProxyHeader.read(Array(long.dropLast()).span) == .incomplete)
    expectFault(long, .tooLong)
    expectFault(long + [0x0d, 0x0a], .tooLong)
  }

  @Test(
    "Anything else is no header, from its first wrong byte",
    arguments: [
      "P\r", "PR\u{16}", "PRI * HTTP/2.0", "PROXY\t", "GET / HTTP/1.1", "\u{16}\u{3}\u{1}",
      "proxy ", "\0",
    ])
  func other(text: String) { expectFault(Array(text.utf8), .noSignature) }
}
