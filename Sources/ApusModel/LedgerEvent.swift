/// Who a notification is, apart from what it says: what the ledger and the counters know it by.
public struct NotificationFacts: Sendable, Hashable {
  /// The place in the order of acceptance.
  public var order: UInt64
  /// `apns-id`.
  public var id: NotificationID
  /// `apns-unique-id`.
  public var uniqueID: NotificationID
  public var device: DeviceID
  public var topic: TopicKey
  public var environment: Environment
  /// The first eight bytes of the device token. With the device and the topic that the token leads to, they tell it
  /// from every other: seven of them are part of its authentication tag.
  public var tokenPrefix: UInt64
  /// Nil where the provider named none.
  public var pushType: PushType?
  public var priority: Priority
  public var interface: ProviderInterface

  public init(
    order: UInt64, id: NotificationID, uniqueID: NotificationID, device: DeviceID, topic: TopicKey,
    environment: Environment, tokenPrefix: UInt64, pushType: PushType?, priority: Priority,
    interface: ProviderInterface
  ) {
    self.order = order
    self.id = id
    self.uniqueID = uniqueID
    self.device = device
    self.topic = topic
    self.environment = environment
    self.tokenPrefix = tokenPrefix
    self.pushType = pushType
    self.priority = priority
    self.interface = interface
  }
}

extension Notification {
  public var facts: NotificationFacts {
    NotificationFacts(
      order: order, id: id, uniqueID: uniqueID, device: claims.device, topic: claims.topic,
      environment: claims.environment, tokenPrefix: token.words.0, pushType: pushType,
      priority: priority, interface: interface)
  }
}

/// Why a notification came into a state that does not say it all. The raw values are on disk, in the ledger.
public enum LedgerCause: UInt8, Sendable, CaseIterable, Hashable {
  case none = 0
  case deviceAway = 1
  case topicHeldBack = 2
  case queueFull = 3
  case deviceIdle = 4
  case connectionEnded = 5
  case foundInStore = 6
  case replacementFailed = 7
  case serviceEnded = 8

  /// In words for the operator; empty where there is none.
  public var text: StaticString {
    switch self {
    case .none: ""
    case .deviceAway: "the device is not connected"
    case .topicHeldBack: "the device's filter holds the topic back"
    case .queueFull: "as many as may wait for the device do"
    case .deviceIdle: "the device saves power"
    case .connectionEnded: "the connection ended before the device acknowledged it"
    case .foundInStore: "a write that was reported as failed had kept it"
    case .replacementFailed: "what was to replace it could not be stored"
    case .serviceEnded:
      "a newer one took its place in the store, and the service crashed before the device acknowledged it"
    }
  }
}

/// One notification reached one state.
///
/// A plain value without references: workers keep thousands in one array. The time is added when the event leaves the
/// shard, which knows no clock.
public struct LedgerEvent: Sendable, Hashable {
  public var state: DeliveryState
  /// For `refusedByDevice` the device's status, else the raw value of a `LedgerCause`.
  public var causeCode: UInt8
  public var facts: NotificationFacts

  public init(state: DeliveryState, causeCode: UInt8, facts: NotificationFacts) {
    self.state = state
    self.causeCode = causeCode
    self.facts = facts
  }

  /// The cause in words; empty where there is none.
  public var causeText: String {
    if state == .refusedByDevice { return "the device's status is \(causeCode)" }
    guard let cause = LedgerCause(rawValue: causeCode) else { return "cause \(causeCode)" }
    return "\(cause.text)"
  }
}

/// Which notifications the ledger follows.
public enum LedgerMode: Sendable, Hashable {
  case off
  case all
  /// One notification in so many, with all of its states: a hash of its id decides.
  case oneIn(UInt32)
}
