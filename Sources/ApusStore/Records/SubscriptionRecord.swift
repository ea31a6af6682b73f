package import ApusModel
import ApusWire

/// The channels that a device is subscribed to in one environment, in the family `channels`.
///
/// Key: 0x02 (1), device (8), environment (1). Value, numbers big-endian: version (1), then for each subscription:
/// channel (16), order of the newest broadcast that the device has (8), order of the one that it was sent without
/// acknowledging it (8), how many connections ended so (1).
package struct SubscriptionRecord: Sendable, Hashable {
  package struct Subscription: Sendable, Hashable {
    package var channel: ChannelID
    /// The device needs no broadcast up to this order.
    package var newestOrder: UInt64
    /// The broadcast that it was sent last without acknowledging it; 0 for none.
    package var triedOrder: UInt64
    /// Connections that ended while it was unacknowledged.
    package var triedCount: UInt8

    package init(
      channel: ChannelID, newestOrder: UInt64 = 0, triedOrder: UInt64 = 0, triedCount: UInt8 = 0
    ) {
      self.channel = channel
      self.newestOrder = newestOrder
      self.triedOrder = triedOrder
      self.triedCount = triedCount
    }
  }

  /// At most `Limits.subscriptionsPerDevice`, the oldest first.
  package var subscriptions: [Subscription]

  package static let version: UInt8 = 1
  static let kind: UInt8 = 0x02
  private static let subscriptionByteCount = 33

  package init(_ subscriptions: [Subscription] = []) { self.subscriptions = subscriptions }

  /// The common prefix of the keys of all devices.
  package static var prefix: InlineArray<1, UInt8> { InlineArray(repeating: kind) }

  package static func key(
    _ device: DeviceID, _ environment: Environment
  ) -> InlineArray<10, UInt8> {
    var bytes = InlineArray<10, UInt8>(repeating: kind)
    bytes.write(bigEndian: device.rawValue, at: 1)
    bytes[9] = environment.rawValue
    return bytes
  }

  package static func decode(
    key bytes: Span<UInt8>
  ) throws(RecordError) -> (device: DeviceID, environment: Environment) {
    var cursor = RecordCursor()
    let kind: UInt8 = try cursor.integer("kind", in: bytes)
    guard kind == Self.kind else { throw .malformed(field: "kind") }
    let device = DeviceID(try cursor.integer("device", in: bytes))
    guard let environment = Environment(rawValue: try cursor.integer("environment", in: bytes))
    else { throw .malformed(field: "environment") }
    try cursor.end(in: bytes)
    return (device, environment)
  }

  package func encoded() -> [UInt8] {
    var output: [UInt8] = [Self.version]
    output.reserveCapacity(1 + subscriptions.count * Self.subscriptionByteCount)
    for subscription in subscriptions {
      output.append(bigEndian: subscription.channel.high)
      output.append(bigEndian: subscription.channel.low)
      output.append(bigEndian: subscription.newestOrder)
      output.append(bigEndian: subscription.triedOrder)
      output.append(subscription.triedCount)
    }
    return output
  }

  package init(decoding bytes: Span<UInt8>) throws(RecordError) {
    var cursor = RecordCursor()
    let version: UInt8 = try cursor.integer("version", in: bytes)
    guard version == Self.version else { throw .unknownVersion(version) }
    let (count, rest) = (bytes.count - 1).quotientAndRemainder(
      dividingBy: Self.subscriptionByteCount)
    guard rest == 0 else { throw .trailingBytes(rest) }
    guard count <= Limits.subscriptionsPerDevice else {
      throw .malformed(field: "number of subscriptions")
    }
    subscriptions = []
    subscriptions.reserveCapacity(count)
    for _ in 0..<count {
      subscriptions.append(
        Subscription(
          channel: ChannelID(
            high: try cursor.integer("channel", in: bytes),
            low: try cursor.integer("channel", in: bytes)),
          newestOrder: try cursor.integer("newest", in: bytes),
          triedOrder: try cursor.integer("tried", in: bytes),
          triedCount: try cursor.integer("tries", in: bytes)))
    }
  }
}

extension StoreReader {
  /// A device's subscriptions; nil if it has none. They are read when it connects, so the engine does not cache them.
  package func subscriptions(
    of device: DeviceID, in environment: Environment
  ) throws(StoreError) -> [UInt8]? {
    let key = SubscriptionRecord.key(device, environment)
    return try get(.channels, key: key.span, once: true)
  }

  /// Calls `body` with each device that has subscriptions, in the order of the keys, and with its row's value, until it
  /// returns false. A row that is not a device's is skipped.
  ///
  /// - Parameter start: The key to begin at; nil for the first one.
  package func forEachSubscriber(
    from start: InlineArray<10, UInt8>?,
    _ body: (DeviceID, Environment, Span<UInt8>) -> Bool
  ) throws(StoreError) {
    let prefix = SubscriptionRecord.prefix
    let first = start ?? InlineArray(repeating: 0)
    try scan(.channels, prefix: prefix.span, from: first.span) { key, value in
      guard let place = try? SubscriptionRecord.decode(key: key) else { return true }
      return body(place.device, place.environment, value)
    }
  }
}
