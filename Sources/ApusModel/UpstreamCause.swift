/// Why upstream did not accept a notification, in one byte. The codes are on disk, in the ledger.
public struct UpstreamCause: Sendable, Hashable {
  public let code: UInt8

  public init(code: UInt8) { self.code = code }

  /// Upstream's reason.
  public init(_ reason: Reason) {
    let index = Self.reasons.firstIndex(of: reason)
    code = index.map { UInt8($0) + Self.firstReason } ?? Self.otherReason.code
  }

  /// A reason that this version does not know, or none; the log has it.
  public static let otherReason = UpstreamCause(code: 1)
  public static let notConnected = UpstreamCause(code: 2)
  /// The notification may have arrived.
  public static let noAnswer = UpstreamCause(code: 3)

  /// The cause as a message for the operator.
  public var text: String {
    if let reason { return "\(reason.text)" }
    return switch self {
    case .otherReason: "upstream's reason is in the log"
    case .notConnected: "there is no connection to upstream"
    case .noAnswer: "upstream did not answer; it may have arrived"
    default: "cause \(code)"
    }
  }

  /// The reason as upstream sends it, or a word in its place, for metrics.
  public var name: String {
    if let reason { return "\(reason.text)" }
    return switch self {
    case .notConnected: "not-connected"
    case .noAnswer: "no-answer"
    default: "other"
    }
  }

  private var reason: Reason? {
    guard code >= Self.firstReason, Int(code - Self.firstReason) < Self.reasons.count else {
      return nil
    }
    return Self.reasons[Int(code - Self.firstReason)]
  }

  private static let firstReason: UInt8 = 16

  /// A reason's code is its position, from `firstReason`: new ones are added at the end.
  private static let reasons: [Reason] = [
    .badCollapseID, .badDeviceToken, .badExpirationDate, .badMessageID, .badPriority, .badTopic,
    .deviceTokenNotForTopic, .duplicateHeaders, .idleTimeout, .invalidPushType,
    .missingDeviceToken, .missingTopic, .payloadEmpty, .topicDisallowed, .badCertificate,
    .badCertificateEnvironment, .expiredProviderToken, .forbidden, .invalidProviderToken,
    .missingProviderToken, .unrelatedKeyIDInToken, .badEnvironmentKeyInToken, .badPath,
    .methodNotAllowed, .expiredToken, .unregistered, .payloadTooLarge,
    .tooManyProviderTokenUpdates, .tooManyRequests, .headerListTooLarge, .badRequestPayload,
    .internalServerError, .serviceUnavailable, .shutdown, .badChannelID, .badRequestParams,
    .cannotCreateChannelConfig, .channelNotRegistered, .featureNotEnabled, .missingChannelID,
    .missingPushType, .topicMismatch,
  ]
}
