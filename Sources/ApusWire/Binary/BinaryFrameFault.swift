package import ApusModel

/// Why bytes are no notification of the binary interface. Each ends the connection: nothing that follows is read.
///
/// Source of the statuses: "Binary Provider API", Table A-1. That damaged framing is 128 is our reading of "APNs could
/// not parse the notification".
package enum BinaryFrameFault: Error, Sendable, Hashable {
  /// A first byte other than 0, 1 and 2.
  case unknownCommand(UInt8)
  /// A header of command 2 that announces more than `Limits.binaryFrameBytes` of items.
  case frameTooLong(byteCount: Int)
  /// An item that runs past the frame's end, or one or two bytes behind the last, too few for an item's header.
  case itemBeyondFrame
  /// An item that is not in Apple's table.
  case unknownItem(UInt8)
  case repeatedItem(UInt8)
  /// An identifier or expiration that is not four bytes long, or a priority that is not one.
  case itemLength(item: UInt8, byteCount: Int)
  /// No token, or one of length 0. Clients that wait for everything before it to be settled send the latter on purpose.
  case tokenMissing
  /// A token of a length that this service does not issue.
  case tokenLength(byteCount: Int)
  /// No payload, or one of length 0.
  case payloadMissing
  case payloadTooLong(byteCount: Int, limit: Int)

  /// What the provider is told.
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
    case .unknownCommand(let command): "command \(command), where there are 0, 1 and 2"
    case .frameTooLong(let byteCount):
      "a frame announces \(byteCount) bytes of items, of \(Limits.binaryFrameBytes) that it may have"
    case .itemBeyondFrame: "an item runs past the end of its frame"
    case .unknownItem(let item): "item \(item), where there are 1 to 5"
    case .repeatedItem(let item): "item \(item) stands twice in one frame"
    case .itemLength(let item, let byteCount): "item \(item) cannot be \(byteCount) bytes long"
    case .tokenMissing: "a notification without device token"
    case .tokenLength(let byteCount): "no device token is \(byteCount) bytes long"
    case .payloadMissing: "a notification without payload"
    case .payloadTooLong(let byteCount, let limit):
      "a payload of \(byteCount) bytes, of \(limit) that it may have"
    }
  }
}
