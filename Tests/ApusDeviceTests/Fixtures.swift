import ApusDevice
import ApusModel
import ApusWire
import Testing

/// Bytes from hexadecimal digits; white space is ignored.
func bytes(_ hex: String) -> [UInt8] {
  let digits = hex.utf8.compactMap(hexValue)
  precondition(digits.count.isMultiple(of: 2), "half a byte in \(hex)")
  return stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
}

func hex(_ bytes: [UInt8]) -> String {
  String(decoding: bytes.flatMap { [hexDigit($0 >> 4), hexDigit($0 & 15)] }, as: UTF8.self)
}

/// A base token and an app's token, as digits.
let baseHex = "101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f"
let otherHex = "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100"
/// SHA-1 of com.example.app and of com.example.chat, computed by another program.
let appHex = "a003f1da17993ee51f2b3ceef6c6153afa8f3ec2"
let chatHex = "f0c3b1c18f3b367721f684097e07ac6b8a0ce045"

func token(_ hex: String) -> DeviceToken {
  guard let token = DeviceToken(bytes: bytes(hex).span) else { preconditionFailure("no token") }
  return token
}

func topic(_ hex: String) -> TopicHash {
  guard let topic = TopicHash(bytes(hex).span) else { preconditionFailure("no topic") }
  return topic
}

/// The service's frames, written by hand from the protocol's description.
enum FromService {
  /// 0x08, status 0: token, 5,120 bytes at most, version 2, no capabilities, 5,120 bytes, the time
  /// 1,700,000,000,123 ms.
  static func accepted(_ token: String = baseHex) -> [UInt8] {
    bytes(
      """
      08 00000048  01 0001 00  03 0020 \(token)  04 0002 1400  05 0002 0002  06 0004 00000000
      08 0002 1400  0a 0008 0000018bcfe5687b
      """)
  }

  /// 0x0a of message id `id` under the app's topic, with the payload `{"aps":{}}` and every extension.
  static func notification(
    id: UInt32, sentMilliseconds: UInt64 = 1_700_000_000_123, flags: String = "03",
    apnsID: String = "00112233445566778899aabbccddeeff"
  ) -> [UInt8] {
    let sent = String(sentMilliseconds * 1_000_000, radix: 16)
    return bytes(
      """
      0a 00000086  01 0020 \(otherHex)  02 0014 \(appHex)  03 000a 7b22617073223a7b7d7d
      04 0004 \(String(repeating: "0", count: 8 - String(id, radix: 16).count))\(String(id, radix: 16))
      05 0004 6553f1ff  06 0008 \(String(repeating: "0", count: 16 - sent.count))\(sent)
      07 0001 \(flags)  0d 0001 05  40 0010 \(apnsID)  41 0001 01
      42 0004 736c6f74
      """)
  }
}

/// A device's frames, written by hand.
enum FromDevice {
  static func acknowledgement(_ id: String, status: String = "00") -> String {
    "0b0000002e010020\(baseHex)040004\(id)080001\(status)"
  }
}
