package import ApusModel

/// What the node of a device has decided about a notification, on its way to the node that admitted it.
///
/// Layout, numbers big-endian: number of the notification (4), time for 410 (8, Unix milliseconds, or 0), reason (1 for
/// the length, then its text; empty if the notification was accepted). The text, because nodes of two versions know
/// different reasons.
package struct LinkVerdict: Sendable, Equatable {
  package var number: UInt32
  /// Nil if the notification was accepted.
  package var rejection: Rejection?

  package init(number: UInt32, rejection: Rejection?) {
    self.number = number
    self.rejection = rejection
  }

  private static let fixedByteCount = 13

  package func encode(to output: inout [UInt8]) {
    output.append(bigEndian: number)
    output.append(bigEndian: UInt64(bitPattern: rejection?.timestampMilliseconds ?? 0))
    guard let rejection else { return output.append(0) }
    output.append(UInt8(rejection.reason.text.utf8CodeUnitCount))
    output.append(rejection.reason.text)
  }

  /// Reads the verdict at `offset` and moves behind it; nil while it is not complete. A reason of another version is
  /// read as ``Reason/internalServerError``.
  package static func next(_ bytes: Span<UInt8>, at offset: inout Int) -> LinkVerdict? {
    guard bytes.count - offset >= fixedByteCount else { return nil }
    let textStart = offset + fixedByteCount
    let textEnd = textStart + Int(bytes[textStart - 1])
    guard bytes.count >= textEnd else { return nil }
    let number = bytes.bigEndianUInt32(at: offset)
    let time = Int64(bitPattern: bytes.bigEndianUInt64(at: offset + 4))
    offset = textEnd
    guard textEnd > textStart else { return LinkVerdict(number: number, rejection: nil) }
    let reason = Reason(text: bytes.extracting(textStart..<textEnd)) ?? .internalServerError
    return LinkVerdict(
      number: number, rejection: Rejection(reason, timestampMilliseconds: time > 0 ? time : nil))
  }
}
