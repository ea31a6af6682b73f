package import ApusModel

/// Why bytes are not a notification of the binary interface. Each fault ends the connection: nothing after it is read.
///
/// Source of the statuses: "Binary Provider API", Table A-1. It describes 128 as a notification that APNs could not
/// parse; we use it for damaged framing.
package enum BinaryFrameFault: Error, Sendable, Hashable {
  /// A first byte other than 0, 1 and 2.
  case unknownCommand(UInt8)
  /// A header of command 2 that announces more than `Limits.binaryFrameBytes` of items.
  case frameTooLong(byteCount: Int)
  /// An item that runs past the frame's end, or one or two trailing bytes, too few for an item's header.
  case itemBeyondFrame
  /// An item that is not in Apple's table.
  case unknownItem(UInt8)
  case repeatedItem(UInt8)
  /// An identifier or expiration that is not four bytes long, or a priority that is not one.
  case itemLength(item: UInt8, byteCount: Int)
  /// No token, or one of length 0. Clients send the latter on purpose, to learn when everything before it was
  /// processed.
  case tokenMissing
  /// A token of a length that this service does not issue.
  case tokenLength(byteCount: Int)
  /// No payload, or one of length 0.
  case payloadMissing
  case payloadTooLong(byteCount: Int, limit: Int)

  /// The status for the provider.
  package var status: BinaryStatus {
    switch self {
    case .unknownCommand, .frameTooLong, .itemBeyondFrame, .unknownItem, .repeatedItem, .itemLength:
      .protocolError
    case .tokenMissing: .missingDeviceToken
    case .tokenLength: .invalidTokenSize
    case .payloadMissing: .missingPayload
    case .payloadTooLong: .invalidPayloadSize
    }
  }
}

extension BinaryFrameFault: CustomStringConvertible {
  package var description: String {
    switch self {
    case .unknownCommand(let command): "unknown command \(command)"
    case .frameTooLong(let byteCount):
      "a frame announces \(byteCount) bytes of items, more than \(Limits.binaryFrameBytes)"
    case .itemBeyondFrame: "an item runs past the end of its frame"
    case .unknownItem(let item): "unknown item \(item)"
    case .repeatedItem(let item): "item \(item) occurs twice in one frame"
    case .itemLength(let item, let byteCount): "item \(item) cannot be \(byteCount) bytes long"
    case .tokenMissing: "the notification has no device token"
    case .tokenLength(let byteCount): "a device token cannot be \(byteCount) bytes long"
    case .payloadMissing: "the notification has no payload"
    case .payloadTooLong(let byteCount, let limit):
      "a payload of \(byteCount) bytes, more than \(limit)"
    }
  }
}
