package import ApusCore
package import ApusModel
import ApusWire

/// What is sent to each device of a group: a provider's request without a device token.
package struct GroupPush: Sendable, Hashable {
  package var environment: Environment
  package var topic: String?
  package var pushType: String?
  package var priority: String?
  package var expiration: String?
  package var collapseID: String?
  package var payload: [UInt8]

  package init(environment: Environment, payload: [UInt8]) {
    self.environment = environment
    self.payload = payload
  }

  /// The request's fields without its path; nil if they are too long in total.
  package var fields: RequestFields? {
    var fields = RequestFields()
    let values: [(HeaderName, String?)] = [
      (.method, "POST"), (.apnsTopic, topic), (.apnsPushType, pushType), (.apnsPriority, priority),
      (.apnsExpiration, expiration), (.apnsCollapseID, collapseID),
    ]
    for case (let name, let value?) in values {
      let bytes = Array(value.utf8)
      guard fields.add(name, value: bytes.span) else { return nil }
    }
    return fields
  }

  /// Judges it as a provider's request, with everything but the device: what is wrong with it, it has in common for
  /// all devices.
  package func admitted(by directory: Directory) throws(Refusal) -> AdmittedGroupPush {
    guard let fields else { throw Refusal(.headerListTooLarge) }
    let sender = ProviderConnection(environment: environment)
    let head = try Admission.examine(
      fields, connection: sender, directory: directory, bodyByteCount: payload.count,
      body: payload.span, substitute: DeviceToken(words: (1, 0, 0, 0)))
    guard let topic = head.topic else { throw Refusal(.topicUnknown) }
    _ = try Admission.admit(
      head, claims: Self.baseClaims(DeviceID(0), environment),
      grant: Grant(team: topic.team, scope: .team), connection: sender, directory: directory)
    return AdmittedGroupPush(
      push: self, head: head, topic: topic.key, collapseID: fields.value(.apnsCollapseID).copied())
  }

  /// What is wrong with it, in words.
  package func text(of refusal: Refusal, _ directory: Directory) -> String {
    refusal.explanation.text(fields: fields ?? RequestFields(), directory: directory)
  }

  /// The claims of a token that stands for whatever app of the device has the topic.
  fileprivate static func baseClaims(
    _ device: DeviceID, _ environment: Environment
  ) -> TokenClaims {
    TokenClaims(
      device: device, topic: TopicKey(app: .base), environment: environment, generation: 0)
  }
}

/// A push that is fit to be sent.
package struct AdmittedGroupPush: Sendable {
  fileprivate let push: GroupPush
  private var head: AdmittedHead
  private let topic: TopicKey
  private let collapseID: [UInt8]

  fileprivate init(
    push: GroupPush, head: AdmittedHead, topic: TopicKey, collapseID: [UInt8]
  ) {
    self.push = push
    self.head = head
    self.topic = topic
    self.collapseID = collapseID
  }

  /// Makes the notification for one device.
  ///
  /// - Parameter seal: Makes the device's base token.
  package mutating func fill(
    _ notification: Notification, for device: DeviceID, nowMilliseconds: Int64,
    seal: (TokenClaims) -> DeviceToken
  ) {
    var claims = GroupPush.baseClaims(device, push.environment)
    head.token = seal(claims)
    claims.topic = topic
    Admission.fill(
      notification, from: head, claims: claims, interface: .http2, collapseID: collapseID.span,
      payload: push.payload.span, nowMilliseconds: nowMilliseconds)
  }
}

/// How a push to one device of a group went. The raw values are on disk.
package enum GroupOutcome: UInt8, Sendable, CaseIterable {
  /// The service has the notification; the ledger shows what happened next.
  case accepted = 1
  /// The device has no app with the topic.
  case noApp = 2
  /// The device was retired, or removed the app.
  case inactive = 3
  /// The device gets more than its rate.
  case tooMany = 4
  /// The service no longer accepts the push, because its app was removed.
  case refused = 5
  /// The operator cancelled the job first.
  case cancelled = 6
  /// The store takes no writes, or the service shuts down: to be tried again. Never on disk.
  case unavailable = 255

  package init(_ rejection: Rejection?) {
    switch rejection?.reason {
    case nil: self = .accepted
    case .deviceTokenNotForTopic: self = .noApp
    case .unregistered: self = .inactive
    case .tooManyRequests: self = .tooMany
    case .serviceUnavailable, .internalServerError, .shutdown: self = .unavailable
    default: self = .refused
    }
  }

  /// The name in the administration.
  package var name: String {
    switch self {
    case .accepted: "accepted"
    case .noApp: "no_app"
    case .inactive: "inactive"
    case .tooMany: "too_many"
    case .refused: "refused"
    case .cancelled: "cancelled"
    case .unavailable: "unavailable"
    }
  }

  package init?(name: String) {
    guard let outcome = Self.allCases.first(where: { $0.name == name && $0 != .unavailable }) else {
      return nil
    }
    self = outcome
  }
}

/// Some devices of a job, to which its push is to be sent.
package struct GroupBatch: Sendable {
  package var job: NotificationID
  package var push: GroupPush
  /// The devices, and the place of each among all of the job's.
  package var devices: [DeviceID]
  package var places: [UInt32]
  /// Whether the devices may have the notification already: see `Notification.mayBeRepeated`.
  package var mayBeRepeated: Bool

  package init(
    job: NotificationID, push: GroupPush, devices: [DeviceID] = [], places: [UInt32] = [],
    mayBeRepeated: Bool
  ) {
    self.job = job
    self.push = push
    self.devices = devices
    self.places = places
    self.mayBeRepeated = mayBeRepeated
  }
}

/// The outcome for a device, by its place in the job.
package struct PlacedOutcome: Sendable, Equatable {
  package var place: UInt32
  package var outcome: GroupOutcome

  package init(place: UInt32, outcome: GroupOutcome) {
    self.place = place
    self.outcome = outcome
  }
}

/// The running service, as jobs see it.
package protocol GroupPushing: Sendable {
  /// Sends a notification to each device of a batch, with the id that `PushJob.notificationID` gives it.
  ///
  /// - Parameter done: Called on threads of the service, for one part of the batch after the other.
  func send(_ batch: GroupBatch, _ done: @escaping @Sendable ([PlacedOutcome]) -> Void)
}
