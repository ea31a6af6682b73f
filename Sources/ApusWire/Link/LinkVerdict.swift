package import ApusModel

/// What the node of a device has decided about a notification, on its way to the node that admitted it.
///
/// Layout, numbers big-endian: number of the notification (4), time for 410 (8, Unix milliseconds, or 0), reason (1 for
/// the length, then its text; empty if the notification was accepted). The text, because nodes of two versions know
/// different reasons. Of a notice that comes before the verdict, the length is 255, and its number follows (1).
package struct LinkVerdict: Sendable, Equatable {
  /// What the connection of a legacy sender is told before the verdict.
  package enum Notice: UInt8, Sendable {
    /// One device gets more than its rate.
    case flood = 1
    /// The device's queue is full: the verdict waits.
    case heldBack = 2
    /// It no longer is.
    case admitted = 3
  }

  package var number: UInt32
  /// Nil if the notification was accepted.
  package var rejection: Rejection?
  /// Set if this is no verdict yet.
  package var notice: Notice?

  package init(number: UInt32, rejection: Rejection?) {
    self.number = number
    self.rejection = rejection
  }

  package init(number: UInt32, notice: Notice) {
    self.number = number
    self.notice = notice
  }

  private static let noticeMark: UInt8 = 255

  private static let fixedByteCount = 13

  package func encode(to output: inout [UInt8]) {
    output.append(bigEndian: number)
    output.append(bigEndian: UInt64(bitPattern: rejection?.timestampMilliseconds ?? 0))
    if let notice { return output += [Self.noticeMark, notice.rawValue] }
    guard let rejection else { return output.append(0) }
    output.append(UInt8(rejection.reason.text.utf8CodeUnitCount))
    output.append(rejection.reason.text)
  }

  /// Reads the verdict or notice at `offset` and moves behind it; nil while it is not complete. A reason of another
  /// version is read as ``Reason/internalServerError``.
  package static func next(_ bytes: Span<UInt8>, at offset: inout Int) -> LinkVerdict? {
    guard bytes.count - offset >= fixedByteCount else { return nil }
    let textStart = offset + fixedByteCount
    let isNotice = bytes[textStart - 1] == noticeMark
    let textEnd = textStart + (isNotice ? 1 : Int(bytes[textStart - 1]))
    guard bytes.count >= textEnd else { return nil }
    let number = bytes.bigEndianUInt32(at: offset)
    if isNotice, let notice = Notice(rawValue: bytes[textStart]) {
      offset = textEnd
      return LinkVerdict(number: number, notice: notice)
    }
    let time = Int64(bitPattern: bytes.bigEndianUInt64(at: offset + 4))
    offset = textEnd
    guard textEnd > textStart else { return LinkVerdict(number: number, rejection: nil) }
    let reason = Reason(text: bytes.extracting(textStart..<textEnd)) ?? .internalServerError
    return LinkVerdict(
      number: number, rejection: Rejection(reason, timestampMilliseconds: time > 0 ? time : nil))
  }
}
