/// One accepted notification: what the provider asked for, and what the service added.
///
/// The object is reused: a worker takes one from its pool, fills it, and returns it when the notification ends. It
/// belongs to one worker at a time and changes hands only through the bounded queues between workers, which is why it
/// may cross threads without a lock.
public final class Notification: @unchecked Sendable {
  /// `apns-id`: chosen by the provider or assigned.
  public var id = NotificationID(high: 0, low: 0)
  /// `apns-unique-id`: assigned by the service.
  public var uniqueID = NotificationID(high: 0, low: 0)
  /// The interface by which the provider sent it.
  public var interface = ProviderInterface.http2
  /// Its position in the order of acceptance over the whole service. Later is larger, across restarts too.
  public var order: UInt64 = 0
  /// The content of the device token.
  public var claims = TokenClaims(
    device: DeviceID(0), topic: TopicKey(app: .base), environment: .production, generation: 0)
  /// The token as the provider sent it; the device gets it back with the notification.
  public var token = DeviceToken(words: (0, 0, 0, 0))
  /// Unix seconds until which the notification is kept; 0 if it must not be stored.
  public var expirationSeconds: Int64 = 0
  /// Unix milliseconds of acceptance.
  public var acceptedMilliseconds: Int64 = 0
  public var priority = Priority.immediate
  /// Nil if the provider named none.
  public var pushType: PushType?
  /// Whether it only wakes its app: push type background, or no push type and nothing visible or audible.
  public var isBackground = false
  /// Whether it was read from the store or sent before on another connection.
  public var isFromStorage = false
  /// Whether the device may have it already under another message id: because the service was killed while it sent the
  /// notification to many devices, or because an edge sent it to a node whose verdict did not come. The device
  /// recognises it by its id.
  public var mayBeRepeated = false
  /// Its slot among those of its app in the device's mailbox; meaningful once storing it has begun.
  public var slotIndex: UInt8 = 0

  /// The collapse id, at most `Limits.collapseIDBytes`; empty if there is none.
  public var collapseID = ByteStore(capacity: Limits.collapseIDBytes)
  /// The payload, a JSON object of at most `Limits.voipPayloadBytes`.
  public var payload = ByteStore(capacity: 512)

  public init() {}

  /// The message id on the courier's wire: 1 to 2^31-1, the same on every redelivery.
  ///
  /// Taken from the order of acceptance, so two outstanding notifications of a device share one only if 2^31-1
  /// others were accepted between them.
  public var messageID: UInt32 { UInt32(order % 0x7fff_ffff) + 1 }

  /// Whether it may be stored for an offline device.
  public var mayBeStored: Bool { expirationSeconds > 0 }

  /// Whether it may replace an older one that waits: see `DeviceSession.takeReplaced`.
  public var mayReplace: Bool { isBackground || !collapseID.isEmpty }

  /// Whether it has expired.
  public func isExpired(atSeconds now: Int64) -> Bool {
    expirationSeconds > 0 && expirationSeconds <= now
  }
}
