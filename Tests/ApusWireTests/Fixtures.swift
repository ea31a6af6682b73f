/// Bytes written as hexadecimal digits; any other character is a separator.
func hex(_ text: String) -> [UInt8] {
  let digits = text.compactMap(\.hexDigitValue)
  precondition(digits.count.isMultiple(of: 2), "half a byte in \(text)")
  return stride(from: 0, to: digits.count, by: 2).map { UInt8(digits[$0] * 16 + digits[$0 + 1]) }
}

/// A run of equal bytes as hexadecimal digits: for tokens and topics.
func run(_ byte: String, _ count: Int) -> String { String(repeating: byte, count: count) }

/// Whole frames, written by hand from the layouts of the courier protocol.
enum FrameFixture {
  static let token = run("a1", 32)
  static let topic = run("b2", 20)

  /// A connect as one independent client sends it: state 1, flags 0x41, no token.
  static let firstConnect = hex("07 0000000b" + "02 0001 01" + "05 0004 00000041")
  static let connect = hex("07 0000002e" + "01 0020 \(token)" + "02 0001 01" + "05 0004 00000041")
  static let filter = hex("09 0000003a" + "01 0020 \(token)" + "02 0014 \(topic)")
  static let acknowledgement = hex(
    "0b 0000002e" + "01 0020 \(token)" + "04 0004 7fffffff" + "08 0001 00")
  static let keepAlive = hex("0c 00000000")
  static let unknown = hex("1e 00000004" + "63 0001 ff")
  static let notification = hex(
    "0a 00000064" + "01 0020 \(token)" + "02 0014 \(topic)" + "03 000a 7b22617073223a7b7d7d"
      + "04 0004 00000102" + "05 0004 65a0bc00" + "06 0008 17a9d1c3b2f00000" + "07 0001 00")

  static let all = [
    firstConnect, connect, filter, acknowledgement, keepAlive, unknown, notification,
  ]
}
