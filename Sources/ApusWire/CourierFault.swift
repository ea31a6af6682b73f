/// Why bytes are not the courier protocol. Each fault ends the connection: after it, the start of the next frame is
/// unknown or the peer cannot be trusted.
package enum CourierFault: Error, Sendable, Hashable {
  /// Command 0, which old clients read as "no frame" and no peer sends.
  case commandZero
  /// A header that announces more than `Limits.courierFrameBytes` of fields.
  case frameTooLong(command: UInt8, length: Int)
  /// A field, at this offset within the frame's fields, that runs past their end.
  case truncatedField(command: UInt8, offset: Int)
  /// A field of the wrong length, or of bytes that are no message of Protocol Buffers.
  case badField(command: UInt8, id: UInt8, length: Int)
  /// A required field is absent.
  case missingField(command: UInt8, id: UInt8)
  /// A filter with more than `Limits.courierFilterTopics` topics.
  case tooManyTopics
}

extension CourierFault: CustomStringConvertible {
  package var description: String {
    switch self {
    case .commandZero: "command 0"
    case .frameTooLong(let command, let length):
      "a frame of command \(command) announces \(length) bytes"
    case .truncatedField(let command, let offset):
      "the field at offset \(offset) of a frame of command \(command) runs past its end"
    case .badField(let command, let id, let length):
      "field \(id) of command \(command) cannot have these \(length) bytes"
    case .missingField(let command, let id): "a frame of command \(command) lacks field \(id)"
    case .tooManyTopics: "a filter with too many topics"
    }
  }
}

extension Optional {
  /// The value of a required field.
  func required(_ command: CourierCommand, _ id: UInt8) throws(CourierFault) -> Wrapped {
    guard let value = self else { throw .missingField(command: command.rawValue, id: id) }
    return value
  }
}
