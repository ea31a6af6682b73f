/// The facts of a notification without its content, as the ledger and the counters record them.
public struct NotificationFacts: Sendable, Hashable {
  /// Its position in the order of acceptance.
  public var order: UInt64
  /// `apns-id`.
  public var id: NotificationID
  /// `apns-unique-id`.
  public var uniqueID: NotificationID
  public var device: DeviceID
  public var topic: TopicKey
  public var environment: Environment
  /// The first eight bytes of the device token. Seven of them are part of its authentication tag, so together with
  /// device and topic they identify the token.
  public var tokenPrefix: UInt64
  /// Nil if the provider named none.
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

extension NotificationFacts {
  /// The first eight bytes of a token of whatever service; of a shorter one with zeros after its end.
  public static func tokenPrefix(of token: Span<UInt8>) -> UInt64 {
    var prefix: UInt64 = 0
    for index in 0..<8 {
      prefix = prefix << 8 | (index < token.count ? UInt64(token[index]) : 0)
    }
    return prefix
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

/// Why a notification reached a state, where the state alone does not say. The raw values are on disk, in the ledger.
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
  case onlyInMemory = 9
  case declaredDead = 10
  case waitedTooLong = 11

  /// The cause as a message for the operator; empty for `none`.
  public var text: StaticString {
    switch self {
    case .none: ""
    case .deviceAway: "the device is not connected"
    case .topicHeldBack: "the device's filter holds the topic back"
    case .queueFull: "the device does not respond, and its queue is full"
    case .deviceIdle: "the device saves power"
    case .connectionEnded: "the connection ended before the device acknowledged it"
    case .foundInStore: "a write that was reported as failed had stored it"
    case .replacementFailed: "the notification that was to replace it could not be stored"
    case .serviceEnded:
      "a newer one replaced it in the store, and the service crashed before the device acknowledged it"
    case .onlyInMemory: "the service crashed while it had the notification only in memory"
    case .declaredDead: "upstream declared the token dead within the last day"
    case .waitedTooLong: "upstream did not take it within the hours of --relay-hours"
    }
  }
}

/// A notification reached a state.
///
/// A plain value without references: workers keep thousands in one array. The shard knows no clock, so the time is
/// added when the event leaves it.
public struct LedgerEvent: Sendable, Hashable {
  public var state: DeliveryState
  /// For `refusedByDevice` the device's status, for states of a relay an `UpstreamCause`, otherwise the raw value of a
  /// `LedgerCause`.
  public var causeCode: UInt8
  public var facts: NotificationFacts

  public init(state: DeliveryState, causeCode: UInt8, facts: NotificationFacts) {
    self.state = state
    self.causeCode = causeCode
    self.facts = facts
  }

  /// The cause as a message; empty for `none`.
  public var causeText: String {
    switch state {
    case .refusedByDevice: return "the device's status is \(causeCode)"
    case .deferredUpstream, .rejectedUpstream, .unansweredUpstream:
      return UpstreamCause(code: causeCode).text
    default: break
    }
    guard let cause = LedgerCause(rawValue: causeCode) else { return "cause \(causeCode)" }
    return "\(cause.text)"
  }
}

/// Which notifications the ledger records.
public enum LedgerMode: Sendable, Hashable {
  case off
  case all
  /// One notification in this many, with all of its states: a hash of its id decides.
  case oneIn(UInt32)
}
