import ApusModel

/// A channel in a message of the courier protocol, with how far the device has followed it.
package struct CourierChannelMark: Sendable, Hashable {
  /// The channel's id; opaque bytes.
  package var id: [UInt8]
  /// Unix nanoseconds of the newest broadcast that the device has; 0 for none.
  package var newestNanoseconds: UInt64

  package init(id: [UInt8], newestNanoseconds: UInt64 = 0) {
    self.id = id
    self.newestNanoseconds = newestNanoseconds
  }
}

/// The channels of one app in a message of the courier protocol.
package struct CourierChannelTopic: Sendable, Hashable {
  /// The app's topic: its text, not its hash.
  package var topic: [UInt8]
  package var subscribed: [CourierChannelMark]
  package var unsubscribed: [CourierChannelMark]

  package init(
    topic: [UInt8], subscribed: [CourierChannelMark] = [], unsubscribed: [CourierChannelMark] = []
  ) {
    self.topic = topic
    self.subscribed = subscribed
    self.unsubscribed = unsubscribed
  }
}

/// Subscriptions to channels: field 2 of command 0x1d, in the encoding of Protocol Buffers.
///
/// ```
/// Subscriptions { uint32 = 1: 1; repeated Topic = 2; bool replaces = 3 }
/// Topic { string topic = 1; repeated Channel subscribed = 2; repeated Channel unsubscribed = 3 }
/// Channel { bytes id = 1; uint64 newestNanoseconds = 2 }
/// ```
package struct CourierSubscriptions: Sendable, Hashable {
  package var topics: [CourierChannelTopic]
  /// Whether `topics` are all subscriptions of the device: it loses every other.
  package var replaces: Bool

  package init(topics: [CourierChannelTopic] = [], replaces: Bool = false) {
    self.topics = topics
    self.replaces = replaces
  }

  /// The number of channels in it.
  package var count: Int {
    topics.reduce(0) { $0 + $1.subscribed.count + $1.unsubscribed.count }
  }

  init(decoding bytes: Span<UInt8>) throws(ProtobufFault) {
    self.init()
    var reader = ProtobufReader(bytes)
    while let field = try reader.next() {
      switch (field.number, field.kind) {
      case (2, .bytes): topics.append(try CourierChannelTopic(decoding: field.value))
      case (3, .varint): replaces = field.integer != 0
      default: break
      }
    }
  }

  var bytes: [UInt8] {
    var output: [UInt8] = []
    output.appendProtobuf(1, 1)
    for topic in topics { output.appendProtobuf(2, topic.bytes) }
    if replaces { output.appendProtobuf(3, 1) }
    return output
  }
}

extension CourierChannelTopic {
  fileprivate init(decoding bytes: Span<UInt8>) throws(ProtobufFault) {
    self.init(topic: [])
    var reader = ProtobufReader(bytes)
    while let field = try reader.next() {
      switch (field.number, field.kind) {
      case (1, .bytes): topic = field.value.copied()
      case (2, .bytes): subscribed.append(try CourierChannelMark(decoding: field.value))
      case (3, .bytes): unsubscribed.append(try CourierChannelMark(decoding: field.value))
      default: break
      }
    }
  }

  fileprivate var bytes: [UInt8] {
    var output: [UInt8] = []
    output.appendProtobuf(1, topic)
    for channel in subscribed { output.appendProtobuf(2, channel.bytes) }
    for channel in unsubscribed { output.appendProtobuf(3, channel.bytes) }
    return output
  }
}

extension CourierChannelMark {
  init(decoding bytes: Span<UInt8>) throws(ProtobufFault) {
    self.init(id: [])
    var reader = ProtobufReader(bytes)
    while let field = try reader.next() {
      switch (field.number, field.kind) {
      case (1, .bytes): id = field.value.copied()
      case (2, .varint): newestNanoseconds = field.integer
      default: break
      }
    }
  }

  /// As in field 29 of a notification that came over a channel.
  package var bytes: [UInt8] {
    var output: [UInt8] = []
    output.appendProtobuf(1, id)
    if newestNanoseconds > 0 { output.appendProtobuf(2, newestNanoseconds) }
    return output
  }
}
