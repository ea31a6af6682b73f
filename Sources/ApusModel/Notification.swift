/// One accepted notification on its way: what the provider asked for, and what the service added.
///
/// The object is reused: a worker takes one from its pool, fills it, and whoever ends the notification's life gives it
/// back. It belongs to one worker at a time and changes hands only through the bounded queues between workers, which
/// is why it may cross threads without a lock.
public final class Notification: @unchecked Sendable {
  /// The identity that the provider chose or was given: `apns-id`.
  public var id = NotificationID(high: 0, low: 0)
  /// The service's own identity: `apns-unique-id`.
  public var uniqueID = NotificationID(high: 0, low: 0)
  /// By which interface the provider sent it.
  public var interface = ProviderInterface.http2
  /// The place in the order of acceptance over the whole service. Later is larger, across restarts too.
  public var order: UInt64 = 0
  /// What the device token says.
  public var claims = TokenClaims(
    device: DeviceID(0), topic: TopicKey(app: .base), environment: .production, generation: 0)
  /// The token as the provider addressed it; the device gets it back with the notification.
  public var token = DeviceToken(words: (0, 0, 0, 0))
  /// Unix seconds until which the notification is kept; 0 when it must not be stored.
  public var expirationSeconds: Int64 = 0
  /// Unix milliseconds of acceptance.
  public var acceptedMilliseconds: Int64 = 0
  public var priority = Priority.immediate
  /// Nil where the provider named none.
  public var pushType: PushType?
  /// Whether it only wakes its app: of push type background, or without a type and with nothing to be seen or heard.
  public var isBackground = false
  /// Whether it came out of the store or was sent before on another connection.
  public var isFromStorage = false
  /// Which of its app's places in the device's mailbox it has; of meaning for what is stored, or is being.
  public var slotIndex: UInt8 = 0

  /// The collapse id, at most `Limits.collapseIDBytes`; empty where there is none.
  public var collapseID = ByteStore(capacity: Limits.collapseIDBytes)
  /// The payload, a JSON object of at most `Limits.voipPayloadBytes`.
  public var payload = ByteStore(capacity: 512)

  public init() {}

  /// The message id on the courier's wire: 1 to 2^31-1, the same on every redelivery.
  ///
  /// Taken from the order of acceptance, so two outstanding notifications of a device share one only if 2^31-1
  /// others were accepted between them.
  public var messageID: UInt32 { UInt32(order % 0x7fff_ffff) + 1 }

  /// Whether it may be kept for a device that is away.
  public var mayBeStored: Bool { expirationSeconds > 0 }

  /// Whether it may take the place of an older one that waits: see `DeviceSession.takeReplaced`.
  public var mayReplace: Bool { isBackground || !collapseID.isEmpty }

  /// Whether its time is over.
  public func isExpired(atSeconds now: Int64) -> Bool {
    expirationSeconds > 0 && expirationSeconds <= now
  }
}
