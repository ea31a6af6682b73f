public import ApusModel
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

  public var id: ID
  public var storage: ChannelStorage

  public init(id: ID, storage: ChannelStorage) {
    self.id = id
    self.storage = storage
  }
}
