package import ApusModel

/// A broadcast as the frames 0x0a that take it to many devices: encoded once, up to what differs between them.
///
/// The token and the storage flags come first. Everything behind them is the same for all devices, and the extensions
/// are at its end, so that a dialect without them uses a prefix.
package struct CourierBroadcastTail: Sendable {
  /// The fields 2, 3, 4, 5, 6, 13 and 29, then 0x40 and 0x41.
  private let bytes: [UInt8]
  /// Of which those that every dialect has.
  private let plainBytes: Int

  /// A token and the flags.
  private static let headBytes = 35 + 4

  /// - Parameters:
  ///   - topic: The app's topic for Live Activities.
  ///   - messageID: 1...0x7fffffff, the same for all devices.
  ///   - expirySeconds: Unix seconds; nil for none.
  ///   - sentNanoseconds: When the provider's request was accepted, in Unix nanoseconds.
  ///   - id: The `apns-unique-id`.
  ///   - channel: With when the broadcast was accepted as `newestNanoseconds`.
  ///   - payload: At most 65,000 bytes.
  package init(
    topic: TopicHash, messageID: UInt32, expirySeconds: UInt32?, sentNanoseconds: UInt64,
    priority: Priority, id: NotificationID, channel: CourierChannelMark, payload: Span<UInt8>
  ) {
    let mark = channel.bytes
    var output: [UInt8] = []
    output.append(addingCapacity: 58 + mark.count + payload.count) { fields in
      fields.appendField(2, topic)
      fields.appendField(3, payload)
      fields.appendField(4, messageID)
      fields.appendField(5, expirySeconds ?? UInt32.max)
      fields.appendField(6, sentNanoseconds)
      fields.appendField(13, priority.rawValue)
      fields.appendField(29, mark.span)
    }
    plainBytes = output.count
    output.append(addingCapacity: 23) { fields in
      fields.appendField(0x40, id)
      fields.appendField(0x41, PushType.liveactivity.rawValue)
    }
    bytes = output
  }

  /// Appends the frame for one device. An output with enough capacity is not reallocated.
  ///
  /// - Parameters:
  ///   - token: The base token of the device's connection.
  ///   - storage: Without `extensions`, `mayBeRepeated` is left out.
  ///   - extensions: `CourierALPN.allowsExtensions`.
  package func append(
    to output: inout [UInt8], token: DeviceToken, storage: CourierNotification.StorageFlags,
    extensions: Bool
  ) {
    let count = extensions ? bytes.count : plainBytes
    output.appendFrame(.notification, room: Self.headBytes + count) { fields in
      fields.appendField(1, token)
      fields.appendField(
        7, extensions ? storage.rawValue : storage.subtracting(.mayBeRepeated).rawValue)
      fields.append(copying: bytes.span.extracting(first: count))
    }
  }
}
