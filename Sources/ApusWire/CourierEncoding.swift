package import ApusModel

/// A message as a value: the content of a frame of one command.
package protocol CourierMessage: Sendable, Hashable {
  /// Reads the fields of a frame. Unknown fields are skipped.
  init(decoding body: Span<UInt8>) throws(CourierFault)

  /// Appends the whole frame. An output with enough capacity is not reallocated.
  func encode(to output: inout [UInt8])
}

extension [UInt8] {
  /// Appends a frame whose fields `write` appends, at most `room` bytes.
  mutating func appendFrame(
    _ command: CourierCommand, room: Int, _ write: (inout OutputSpan<UInt8>) -> Void
  ) {
    let start = count
    append(addingCapacity: CourierFrame.headerBytes + room) { output in
      output.append(command.rawValue)
      output.append(bigEndian: 0 as UInt32)
      write(&output)
    }
    patch(bigEndian: UInt32(count - start - CourierFrame.headerBytes), at: start + 1)
  }

  /// Appends the 32 bytes.
  package mutating func append(_ token: DeviceToken) {
    append(addingCapacity: DeviceToken.byteCount) { output in output.append(token) }
  }

  /// Appends the 20 bytes.
  package mutating func append(_ topic: TopicHash) {
    append(addingCapacity: TopicHash.byteCount) { output in output.append(topic) }
  }
}

extension OutputSpan<UInt8> {
  private mutating func appendFieldHeader(_ id: UInt8, _ length: Int) {
    precondition(length <= UInt16.max, "a field holds at most 65,535 bytes")
    append(id)
    append(bigEndian: UInt16(truncatingIfNeeded: length))
  }

  mutating func appendField(_ id: UInt8, _ value: UInt8) {
    appendFieldHeader(id, 1)
    append(value)
  }

  mutating func appendField(_ id: UInt8, _ value: UInt16) {
    appendFieldHeader(id, 2)
    append(bigEndian: value)
  }

  mutating func appendField(_ id: UInt8, _ value: UInt32) {
    appendFieldHeader(id, 4)
    append(bigEndian: value)
  }

  mutating func appendField(_ id: UInt8, _ value: UInt64) {
    appendFieldHeader(id, 8)
    append(bigEndian: value)
  }

  mutating func appendField(_ id: UInt8, _ value: Span<UInt8>) {
    appendFieldHeader(id, value.count)
    append(copying: value)
  }

  mutating func appendField(_ id: UInt8, _ value: DeviceToken) {
    appendFieldHeader(id, DeviceToken.byteCount)
    append(value)
  }

  mutating func appendField(_ id: UInt8, _ value: TopicHash) {
    appendFieldHeader(id, TopicHash.byteCount)
    append(value)
  }

  mutating func appendField(_ id: UInt8, _ value: NotificationID) {
    appendFieldHeader(id, 16)
    append(bigEndian: value.high)
    append(bigEndian: value.low)
  }

  mutating func append(_ token: DeviceToken) {
    append(bigEndian: token.words.0)
    append(bigEndian: token.words.1)
    append(bigEndian: token.words.2)
    append(bigEndian: token.words.3)
  }

  mutating func append(_ topic: TopicHash) {
    append(bigEndian: topic.words.0)
    append(bigEndian: topic.words.1)
    append(bigEndian: topic.words.2)
  }
}
