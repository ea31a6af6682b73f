package import ApusModel

/// A notification on its way from the node that admitted it to the one that decides about its device.
///
/// Layout, numbers big-endian: number of bytes that follow (4), number of the notification (4), notification id (16),
/// unique id (16), device (8), app (4), topic suffix (1), environment (1), generation of the token (2), token (32),
/// expiration (8, Unix seconds), accepted (8, Unix milliseconds), priority (1), push type (1, or 255 for none), flags
/// (1), collapse id (1 for the length, then the bytes), payload (the rest).
package enum LinkedNotification {
  private static let noPushType: UInt8 = 0xff
  private static let isBackground: UInt8 = 1
  private static let isBinary: UInt8 = 2
  private static let mayBeRepeated: UInt8 = 4

  /// Bytes between the first number and the collapse id's length.
  private static let fixedByteCount = 103
  /// A frame that says it is longer is broken.
  package static let mostBytes =
    fixedByteCount + 1 + Limits.collapseIDBytes + Limits.voipPayloadBytes

  /// - Parameter number: Comes back with the verdict.
  package static func encode(
    _ notification: Notification, number: UInt32, to output: inout [UInt8]
  ) {
    let (collapseID, payload) = (notification.collapseID, notification.payload)
    let count = fixedByteCount + 1 + collapseID.count + payload.count
    output.append(addingCapacity: 4 + count) { frame in
      frame.append(bigEndian: UInt32(count))
      frame.append(bigEndian: number)
      append(notification, to: &frame)
      frame.append(UInt8(collapseID.count))
      frame.append(copying: collapseID.span)
      frame.append(copying: payload.span)
    }
  }

  private static func append(_ notification: Notification, to frame: inout OutputSpan<UInt8>) {
    let claims = notification.claims
    frame.append(bigEndian: notification.id.high)
    frame.append(bigEndian: notification.id.low)
    frame.append(bigEndian: notification.uniqueID.high)
    frame.append(bigEndian: notification.uniqueID.low)
    frame.append(bigEndian: claims.device.rawValue)
    frame.append(bigEndian: claims.topic.app.rawValue)
    frame.append(claims.topic.suffix.rawValue)
    frame.append(claims.environment.rawValue)
    frame.append(bigEndian: claims.generation)
    frame.append(bigEndian: notification.token.words.0)
    frame.append(bigEndian: notification.token.words.1)
    frame.append(bigEndian: notification.token.words.2)
    frame.append(bigEndian: notification.token.words.3)
    frame.append(bigEndian: UInt64(bitPattern: notification.expirationSeconds))
    frame.append(bigEndian: UInt64(bitPattern: notification.acceptedMilliseconds))
    frame.append(notification.priority.rawValue)
    frame.append(notification.pushType?.rawValue ?? noPushType)
    frame.append(
      (notification.isBackground ? isBackground : 0)
        | (notification.interface == .binary ? isBinary : 0)
        | (notification.mayBeRepeated ? mayBeRepeated : 0))
  }

  /// The number of bytes of the frame at the start of `bytes`; nil while that is not known.
  package static func byteCount(_ bytes: Span<UInt8>) -> Int? {
    bytes.count < 4 ? nil : 4 + Int(bytes.bigEndianUInt32(at: 0))
  }

  /// Fills `notification` from a whole frame, and returns its number; nil for a broken frame.
  package static func decode(_ frame: Span<UInt8>, into notification: Notification) -> UInt32? {
    guard frame.count > 4 + fixedByteCount, frame.count <= 4 + mostBytes else { return nil }
    var reader = ByteReader(frame.extracting(4...))
    guard let number = reader.u32(), fill(notification, from: &reader),
      let collapseLength = reader.u8(), let collapseID = reader.take(Int(collapseLength)),
      collapseID.count <= Limits.collapseIDBytes, let payload = reader.take(reader.remaining)
    else { return nil }
    notification.collapseID.set(collapseID)
    notification.payload.set(payload)
    return number
  }

  private static func fill(_ notification: Notification, from reader: inout ByteReader) -> Bool {
    guard let id = readID(&reader), let uniqueID = readID(&reader),
      let claims = readClaims(&reader), let token = readToken(&reader),
      let expiration = reader.u64(), let accepted = reader.u64(),
      let priority = reader.u8().flatMap(Priority.init(rawValue:)), let type = reader.u8(),
      let flags = reader.u8()
    else { return false }
    let pushType = PushType(rawValue: type)
    guard pushType != nil || type == noPushType else { return false }
    notification.id = id
    notification.uniqueID = uniqueID
    notification.claims = claims
    notification.token = token
    notification.expirationSeconds = Int64(bitPattern: expiration)
    notification.acceptedMilliseconds = Int64(bitPattern: accepted)
    notification.priority = priority
    notification.pushType = pushType
    notification.isBackground = flags & isBackground != 0
    notification.interface = flags & isBinary != 0 ? .binary : .http2
    notification.mayBeRepeated = flags & mayBeRepeated != 0
    notification.isFromStorage = false
    return true
  }

  private static func readID(_ reader: inout ByteReader) -> NotificationID? {
    guard let high = reader.u64(), let low = reader.u64() else { return nil }
    return NotificationID(high: high, low: low)
  }

  private static func readClaims(_ reader: inout ByteReader) -> TokenClaims? {
    guard let device = reader.u64(), let app = reader.u32(),
      let suffix = reader.u8().flatMap(TopicSuffix.init(rawValue:)),
      let environment = reader.u8().flatMap(Environment.init(rawValue:)),
      let generation = reader.u16()
    else { return nil }
    return TokenClaims(
      device: DeviceID(device), topic: TopicKey(app: AppID(app), suffix: suffix),
      environment: environment, generation: generation)
  }

  private static func readToken(_ reader: inout ByteReader) -> DeviceToken? {
    guard let first = reader.u64(), let second = reader.u64(), let third = reader.u64(),
      let fourth = reader.u64()
    else { return nil }
    return DeviceToken(words: (first, second, third, fourth))
  }
}
