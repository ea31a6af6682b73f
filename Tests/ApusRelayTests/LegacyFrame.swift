import ApusTesting
import ApusWire
import Testing

/// Frames of the Binary Provider API, written by hand.
enum LegacyFrame {
  static func simple(_ token: [UInt8], _ payload: [UInt8] = TestService.payload) -> [UInt8] {
    [0] + measured(token) + measured(payload)
  }

  static func enhanced(
    _ identifier: UInt32, _ token: [UInt8], _ payload: [UInt8] = TestService.payload,
    expiration: UInt32 = 0x7fff_ffff
  ) -> [UInt8] {
    [1] + bigEndian(identifier) + bigEndian(expiration) + measured(token) + measured(payload)
  }

  /// Command 2.
  static func framed(
    _ identifier: UInt32, _ token: [UInt8], _ payload: [UInt8] = TestService.payload,
    expiration: UInt32? = 0x7fff_ffff, priority: UInt8? = 10
  ) -> [UInt8] {
    var body = [1] + measured(token) + [2] + measured(payload)
    body += [3] + measured(bigEndian(identifier))
    if let expiration { body += [4] + measured(bigEndian(expiration)) }
    if let priority { body += [5] + measured([priority]) }
    return [2] + bigEndian(UInt32(body.count)) + body
  }

  private static func measured(_ bytes: [UInt8]) -> [UInt8] {
    bigEndian(UInt16(bytes.count)) + bytes
  }

  static func payload(_ text: String) -> [UInt8] { Array(#"{"aps":{"alert":"\#(text)"}}"#.utf8) }

  /// A token in hexadecimal digits.
  static func bytes(_ token: String) throws -> [UInt8] {
    let digits = Array(token.utf8)
    let bytes = Hex.decode(digits.span)
    return try #require(bytes)
  }

  /// A token of another service, in which this byte is repeated.
  static func token(_ byte: UInt8) -> (bytes: [UInt8], text: String) {
    let digits = String(byte, radix: 16)
    return (
      Array(repeating: byte, count: 32),
      String(repeating: digits.count == 1 ? "0" + digits : digits, count: 32)
    )
  }
}
