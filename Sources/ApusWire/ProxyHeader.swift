import ApusModel

/// The header by which a proxy names the client whose connection it relays: the PROXY protocol, versions 1 and 2
/// (haproxy.org, proxy-protocol.txt).
///
/// It comes before everything else on the connection, TLS included. Version 1 is a line of text of at most 107 bytes;
/// version 2 has 16 bytes, which say how many follow: addresses, and further information (TLVs), which is skipped.
///
/// The caller keeps the bytes until the header is complete. A receiver that guesses whether there is one would let
/// clients invent their address, so that nothing but a header is accepted.
package enum ProxyHeader {
  /// What the first bytes of a connection say.
  package enum Reading: Equatable, Sendable {
    /// All of them fit, and the header goes on.
    case incomplete
    /// The proxy relays for a client; what follows the header is the client's.
    case relayed(ProxiedAddress, byteCount: Int)
    /// The proxy speaks for itself, or for somebody without an address: the connection's own address applies.
    case direct(byteCount: Int)
    /// The specification requires that the connection ends.
    case malformed(ProxyHeaderFault)
  }

  /// Reads the header at the beginning of `bytes`, which have at most `Limits.proxyHeaderBytes` of it.
  package static func read(_ bytes: Span<UInt8>) -> Reading {
    guard !bytes.isEmpty else { return .incomplete }
    return bytes[0] == binarySignature[0] ? readBinary(bytes) : readLine(bytes)
  }

  /// Whether `bytes` begin with `signature`, as far as they go.
  private static func fits(_ bytes: Span<UInt8>, _ signature: [UInt8]) -> Bool {
    (0..<min(bytes.count, signature.count)).allSatisfy { bytes[$0] == signature[$0] }
  }

  // MARK: Version 2

  private static let binarySignature: [UInt8] = [
    0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d, 0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a,
  ]
  /// The signature, a byte each for version and command and for family and transport, and two for the length.
  private static let fixedByteCount = 16

  private static func readBinary(_ bytes: Span<UInt8>) -> Reading {
    guard fits(bytes, binarySignature) else { return .malformed(.noSignature) }
    guard bytes.count > 12 else { return .incomplete }
    guard bytes[12] >> 4 == 2 else { return .malformed(.version(bytes[12] >> 4)) }
    let command = bytes[12] & 0x0f
    guard command <= 1 else { return .malformed(.command(command)) }
    guard bytes.count >= fixedByteCount else { return .incomplete }
    let length = Int(bytes[14]) << 8 | Int(bytes[15])
    let byteCount = fixedByteCount + length
    guard byteCount <= Limits.proxyHeaderBytes else { return .malformed(.tooLong) }
    // LOCAL: whatever else the header says is to be ignored.
    if command == 0 {
      return bytes.count < byteCount ? .incomplete : .direct(byteCount: byteCount)
    }
    guard let addressByteCount = addressByteCount(bytes[13]) else {
      return .malformed(.family(bytes[13]))
    }
    guard length >= addressByteCount else { return .malformed(.tooShort) }
    guard bytes.count >= byteCount else { return .incomplete }
    guard let address = address(bytes.extracting(fixedByteCount..<byteCount), bytes[13]) else {
      return .direct(byteCount: byteCount)
    }
    return .relayed(address, byteCount: byteCount)
  }

  /// Bytes of both addresses; nil for a family and transport that the specification does not define, or that cannot
  /// arrive over TCP.
  private static func addressByteCount(_ family: UInt8) -> Int? {
    switch family {
    case 0x00: 0
    case 0x11: 12
    case 0x21: 36
    case 0x31: 216
    default: nil
    }
  }

  /// The source; nil for UNSPEC and for AF_UNIX, whose addresses name no client.
  private static func address(_ block: Span<UInt8>, _ family: UInt8) -> ProxiedAddress? {
    switch family {
    case 0x11: .ipv4(block.bigEndianUInt32(at: 0), port: block.bigEndianUInt16(at: 8))
    case 0x21:
      .ipv6(
        high: block.bigEndianUInt64(at: 0), low: block.bigEndianUInt64(at: 8),
        port: block.bigEndianUInt16(at: 32))
    default: nil
    }
  }

  // MARK: Version 1

  private static let lineSignature = Array("PROXY ".utf8)

  private static func readLine(_ bytes: Span<UInt8>) -> Reading {
    guard fits(bytes, lineSignature) else { return .malformed(.noSignature) }
    let searched = min(bytes.count, Limits.proxyLineBytes - 1)
    guard let end = (0..<searched).first(where: { bytes[$0] == UInt8(ascii: "\r") }) else {
      return searched < Limits.proxyLineBytes - 1 ? .incomplete : .malformed(.tooLong)
    }
    guard end + 1 < bytes.count else { return .incomplete }
    guard bytes[end + 1] == UInt8(ascii: "\n") else { return .malformed(.line) }
    return read(line: bytes.extracting(lineSignature.count..<end), end + 2)
  }

  /// - Parameter line: Without the signature and the line's end.
  private static func read(line: Span<UInt8>, _ byteCount: Int) -> Reading {
    var text = AddressText(line)
    if text.take("TCP4 "), let source = text.takeIPv4(), text.take(" "), text.takeIPv4() != nil,
      let port = text.takePorts()
    {
      return .relayed(.ipv4(source, port: port), byteCount: byteCount)
    }
    if text.take("TCP6 "), let source = text.takeIPv6(), text.take(" "), text.takeIPv6() != nil,
      let port = text.takePorts()
    {
      let (high, low) = (UInt64(source >> 64), UInt64(truncatingIfNeeded: source))
      return .relayed(.ipv6(high: high, low: low, port: port), byteCount: byteCount)
    }
    // The rest of such a line is to be ignored.
    if text.take("UNKNOWN"), text.isAtEnd || text.take(" ") {
      return .direct(byteCount: byteCount)
    }
    return .malformed(.line)
  }
}

/// The client's address and port in a header.
package enum ProxiedAddress: Equatable, Sendable {
  case ipv4(UInt32, port: UInt16)
  /// The address as one big-endian number of two halves.
  case ipv6(high: UInt64, low: UInt64, port: UInt16)
}

/// Why a connection does not begin with a valid header.
package enum ProxyHeaderFault: Error, Equatable, Sendable {
  case noSignature
  /// Of a binary header; text is version 1.
  case version(UInt8)
  case command(UInt8)
  /// Family and transport.
  case family(UInt8)
  /// The declared length is less than that of the addresses.
  case tooShort
  case tooLong
  /// A line of version 1 that is not by its grammar.
  case line
}

extension ProxyHeaderFault: CustomStringConvertible {
  package var description: String {
    switch self {
    case .noSignature: "the connection does not begin with a PROXY header"
    case .version(let number): "PROXY header of version \(number), which is unknown"
    case .command(let number): "PROXY header with command \(number), which is unknown"
    case .family(let number):
      "PROXY header with family and transport 0x\(String(number, radix: 16)), which is not TCP"
    case .tooShort: "PROXY header shorter than its addresses"
    case .tooLong: "PROXY header too long"
    case .line: "PROXY header of version 1 with a malformed line"
    }
  }
}
