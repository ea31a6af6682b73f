import ApusModel
import ApusWire

/// Frames of command 2, all of one size, made in batches. Source: Binary Provider API, Figure A-1.
///
/// Each frame has the items 1 to 5 in order: a token (the tokens in turn), a payload that contains the identifier and
/// is therefore unique, the identifier, the expiration date, priority 10.
struct BinaryFrames {
  /// Frames of a full batch: about 300 KB.
  static let perBatch = 1024
  /// Bytes of a frame without its payload.
  static let overheadBytes = 61
  /// Minimum bytes of a frame: the fixed text of the payload and an identifier.
  static let smallestFrameBytes = overheadBytes + 239

  /// Identifiers count from 1: Apple's gateway sent 0 if it did not know which notification failed.
  private(set) var nextIdentifier: UInt32 = 1
  /// The batch that `prepare` wrote.
  private(set) var bytes: [UInt8] = []
  let frameBytes: Int
  private let payloadBytes: Int
  /// Offset of the identifier's eight digits in the payload.
  private let digitsOffset: Int
  private let tokens: [DeviceToken]

  /// - Parameters:
  ///   - tokens: At least one.
  ///   - frameBytes: At least `smallestFrameBytes`.
  ///   - areUnlike: Whether payloads differ in their first member instead of their last.
  init(tokens: [DeviceToken], expiration: UInt32, frameBytes: Int, areUnlike: Bool) {
    self.tokens = tokens
    self.frameBytes = frameBytes
    payloadBytes = frameBytes - Self.overheadBytes
    digitsOffset = areUnlike ? 7 : payloadBytes - 10
    let payload = Self.payload(payloadBytes, areUnlike: areUnlike)
    bytes.reserveCapacity(Self.perBatch * frameBytes)
    for index in 0..<Self.perBatch {
      appendFrame(payload, token: tokens[index % tokens.count], expiration: expiration)
    }
  }

  /// Writes the next `count` frames, at most a batch, to the front of `bytes`; returns their size in bytes.
  mutating func prepare(_ count: Int) -> Int {
    var token = Int(nextIdentifier - 1) % tokens.count
    for index in 0..<count {
      let start = index * frameBytes
      write(tokens[token], at: start + Self.tokenOffset)
      writeHex(nextIdentifier, at: start + Self.payloadOffset + digitsOffset)
      bytes.patch(bigEndian: nextIdentifier, at: start + identifierOffset)
      nextIdentifier += 1
      token = token + 1 == tokens.count ? 0 : token + 1
    }
    return count * frameBytes
  }

  /// A frame that every service rejects: an empty token and an empty payload. Its error packet confirms that everything
  /// before it was processed (the library Pushy ends its connections like this).
  static func knownBad(identifier: UInt32) -> [UInt8] {
    var frame: [UInt8] = [2, 0, 0, 0, 24, 3, 0, 4]
    frame.append(bigEndian: identifier)
    frame += [1, 0, 0, 2, 0, 0, 4, 0, 4, 0, 0, 0, 0, 5, 0, 1, 10]
    return frame
  }

  // MARK: Layout

  private static let tokenOffset = 8
  private static let payloadOffset = tokenOffset + 32 + 3
  private var identifierOffset: Int { Self.payloadOffset + payloadBytes + 3 }

  private mutating func appendFrame(
    _ payload: [UInt8], token: DeviceToken, expiration: UInt32
  ) {
    let start = bytes.count
    bytes.append(2)
    bytes.append(bigEndian: UInt32(frameBytes - 5))
    bytes += [1, 0, 32] + [UInt8](repeating: 0, count: 32)
    write(token, at: start + Self.tokenOffset)
    bytes.append(2)
    bytes.append(bigEndian: UInt16(payloadBytes))
    bytes += payload
    bytes += [3, 0, 4, 0, 0, 0, 0, 4, 0, 4]
    bytes.append(bigEndian: expiration)
    bytes += [5, 0, 1, 10]
    precondition(bytes.count - start == frameBytes, "a frame has the wrong size")
  }

  private static func payload(_ byteCount: Int, areUnlike: Bool) -> [UInt8] {
    let aps = """
      "aps":{"alert":{"title":"Platform 4","body":"The 17:42 to Leiden leaves from platform 4 instead of 9, eight \
      minutes late. The two coaches at its front go on to Haarlem."},"sound":"default"},"line":"
      """
    let begin = areUnlike ? "{\"id\":\"00000000\"," + aps : "{" + aps
    let end = areUnlike ? "\"}" : "\",\"id\":\"00000000\"}"
    let filler = byteCount - begin.utf8.count - end.utf8.count
    return Array(begin.utf8) + [UInt8](repeating: UInt8(ascii: "x"), count: filler)
      + Array(end.utf8)
  }

  private mutating func write(_ token: DeviceToken, at offset: Int) {
    write(token.words.0, at: offset)
    write(token.words.1, at: offset + 8)
    write(token.words.2, at: offset + 16)
    write(token.words.3, at: offset + 24)
  }

  private mutating func write(_ word: UInt64, at offset: Int) {
    bytes.patch(bigEndian: UInt32(truncatingIfNeeded: word >> 32), at: offset)
    bytes.patch(bigEndian: UInt32(truncatingIfNeeded: word), at: offset + 4)
  }

  private mutating func writeHex(_ value: UInt32, at offset: Int) {
    for digit in 0..<8 {
      bytes[offset + digit] = hexDigit(UInt8(truncatingIfNeeded: value >> (28 - 4 * digit)) & 15)
    }
  }
}
