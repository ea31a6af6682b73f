import ApusModel
import ApusWire

/// A channel of an app. Devices subscribe to it with a Live Activity, and one broadcast reaches all of them.
///
/// ``ChannelClient`` creates, reads, lists and deletes channels;
/// ``PushRequest/init(channel:app:_:expirationSeconds:)`` makes a broadcast. Source: Setting up broadcast push
/// notifications.
public struct BroadcastChannel: Sendable, Hashable, Identifiable {
  /// The service's random name of a channel: base64 of at most `Limits.channelIDBytes` bytes, opaque otherwise.
  ///
  /// It belongs to one app in one environment, and is never used again. Source: Sending channel management requests to
  /// APNs, which asks clients to assume no size.
  public struct ID: Sendable, Hashable, LosslessStringConvertible {
    /// As the service sent it.
    public let text: String

    /// Nil unless `text` is base64 (RFC 4648, section 4) of 1 to `Limits.channelIDBytes` bytes.
    public init?(_ text: String) {
      let digits = text.utf8.span
      guard digits.count <= 2 * Limits.channelIDBytes, let bytes = Base64.decode(digits),
        (1...Limits.channelIDBytes).contains(bytes.count)
      else { return nil }
      self.text = text
    }

    public var description: String { text }
  }

  /// What the service keeps for devices that are offline. It is chosen when a channel is created, and never changes.
  ///
  /// The raw value is the `message-storage-policy` of Sending channel management requests to APNs.
  public enum Storage: UInt8, Sendable, CaseIterable, Hashable {
    /// Nothing: a broadcast reaches the devices that are connected, and more broadcasts are allowed. Every broadcast
    /// must have expiration 0; the service rejects any other.
    case none = 0
    /// The newest broadcast, until its expiration and for at most 8 hours.
    case newest = 1
  }

  public var id: ID
  public var storage: Storage

  public init(id: ID, storage: Storage) {
    self.id = id
    self.storage = storage
  }
}
