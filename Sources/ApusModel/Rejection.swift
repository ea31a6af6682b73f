/// Why a request was rejected: the `reason` in the response's JSON body and in a GOAWAY's debug data.
///
/// Source: "Handling notification responses from APNs" and "Handling error responses from APNs". The raw value is the
/// position in Apple's tables and is never stored.
public enum Reason: UInt8, Sendable, CaseIterable, Hashable {
  case badCollapseID
  case badDeviceToken
  case badExpirationDate
  case badMessageID
  case badPriority
  case badTopic
  case deviceTokenNotForTopic
  case duplicateHeaders
  case idleTimeout
  case invalidPushType
  case missingDeviceToken
  case missingTopic
  case payloadEmpty
  case topicDisallowed
  case badCertificate
  case badCertificateEnvironment
  case expiredProviderToken
  case forbidden
  case invalidProviderToken
  case missingProviderToken
  case unrelatedKeyIDInToken
  case badEnvironmentKeyInToken
  case badPath
  case methodNotAllowed
  case expiredToken
  case unregistered
  case payloadTooLarge
  case tooManyProviderTokenUpdates
  case tooManyRequests
  case headerListTooLarge
  case badRequestPayload
  case internalServerError
  case serviceUnavailable
  case shutdown
  // Channels: "Handling error responses from APNs".
  case badChannelID
  case badRequestParams
  case cannotCreateChannelConfig
  case channelNotRegistered
  case featureNotEnabled
  case missingChannelID
  case missingPushType
  case topicMismatch

  /// The reason on the wire.
  ///
  /// `BadEnvironmentKeyInToken` is what APNs really sends; Apple's page prints `…KeyIdInToken`. `BadRequestPayload`
  /// (unparsable JSON) is in Apple's table for channels; device requests use it too, because their own table has no
  /// reason for a body that is not a JSON object with `aps`. `HeaderListTooLarge` is ours, for the 431 of RFC 9113,
  /// section 10.5.1.
  public var text: StaticString {
    switch self {
    case .badCollapseID: "BadCollapseId"
    case .badDeviceToken: "BadDeviceToken"
    case .badExpirationDate: "BadExpirationDate"
    case .badMessageID: "BadMessageId"
    case .badPriority: "BadPriority"
    case .badTopic: "BadTopic"
    case .deviceTokenNotForTopic: "DeviceTokenNotForTopic"
    case .duplicateHeaders: "DuplicateHeaders"
    case .idleTimeout: "IdleTimeout"
    case .invalidPushType: "InvalidPushType"
    case .missingDeviceToken: "MissingDeviceToken"
    case .missingTopic: "MissingTopic"
    case .payloadEmpty: "PayloadEmpty"
    case .topicDisallowed: "TopicDisallowed"
    case .badCertificate: "BadCertificate"
    case .badCertificateEnvironment: "BadCertificateEnvironment"
    case .expiredProviderToken: "ExpiredProviderToken"
    case .forbidden: "Forbidden"
    case .invalidProviderToken: "InvalidProviderToken"
    case .missingProviderToken: "MissingProviderToken"
    case .unrelatedKeyIDInToken: "UnrelatedKeyIdInToken"
    case .badEnvironmentKeyInToken: "BadEnvironmentKeyInToken"
    case .badPath: "BadPath"
    case .methodNotAllowed: "MethodNotAllowed"
    case .expiredToken: "ExpiredToken"
    case .unregistered: "Unregistered"
    case .payloadTooLarge: "PayloadTooLarge"
    case .tooManyProviderTokenUpdates: "TooManyProviderTokenUpdates"
    case .tooManyRequests: "TooManyRequests"
    case .headerListTooLarge: "HeaderListTooLarge"
    case .badRequestPayload: "BadRequestPayload"
    case .internalServerError: "InternalServerError"
    case .serviceUnavailable: "ServiceUnavailable"
    case .shutdown: "Shutdown"
    case .badChannelID: "BadChannelId"
    case .badRequestParams: "BadRequestParams"
    case .cannotCreateChannelConfig: "CannotCreateChannelConfig"
    case .channelNotRegistered: "ChannelNotRegistered"
    case .featureNotEnabled: "FeatureNotEnabled"
    case .missingChannelID: "MissingChannelId"
    case .missingPushType: "MissingPushType"
    case .topicMismatch: "TopicMismatch"
    }
  }

  /// The reason as APNs sends it in a response's body and in a GOAWAY's debug data: `{"reason":"…"}`, without spaces.
  public var json: [UInt8] {
    var bytes = StaticString("{\"reason\":\"").bytes
    bytes.append(text)
    bytes.append("\"}")
    return bytes
  }

  /// The HTTP status for the reason.
  public var status: UInt16 {
    switch self {
    case .badCollapseID, .badDeviceToken, .badExpirationDate, .badMessageID, .badPriority,
      .badTopic, .deviceTokenNotForTopic, .duplicateHeaders, .idleTimeout, .invalidPushType,
      .missingDeviceToken, .missingTopic, .payloadEmpty, .topicDisallowed, .badRequestPayload,
      .badChannelID, .badRequestParams, .cannotCreateChannelConfig, .channelNotRegistered,
      .featureNotEnabled, .missingChannelID, .missingPushType:
      400
    case .badCertificate, .badCertificateEnvironment, .expiredProviderToken, .forbidden,
      .invalidProviderToken, .missingProviderToken, .unrelatedKeyIDInToken,
      .badEnvironmentKeyInToken, .topicMismatch:
      403
    case .badPath: 404
    case .methodNotAllowed: 405
    case .expiredToken, .unregistered: 410
    case .payloadTooLarge: 413
    case .tooManyProviderTokenUpdates, .tooManyRequests: 429
    case .headerListTooLarge: 431
    case .internalServerError: 500
    case .serviceUnavailable, .shutdown: 503
    }
  }

  /// Finds a reason by its text on the wire; nil if it is unknown.
  public init?(text: Span<UInt8>) {
    for reason in Reason.allCases where text.equals(reason.text) {
      self = reason
      return
    }
    return nil
  }
}

extension Reason: CustomStringConvertible {
  /// `text`.
  public var description: String { text.description }
}

/// A rejected request: the reason, and for 410 the time at which the token was found dead.
public struct Rejection: Error, Sendable, Hashable, CustomStringConvertible {
  public var reason: Reason
  /// Unix milliseconds; present with status 410 only.
  public var timestampMilliseconds: Int64?

  public init(_ reason: Reason, timestampMilliseconds: Int64? = nil) {
    self.reason = reason
    self.timestampMilliseconds = timestampMilliseconds
  }

  /// Status and reason, such as `400 BadDeviceToken`.
  public var description: String {
    "\(reason.status) \(reason)"
      + (timestampMilliseconds.map { ", inactive since \($0) (Unix milliseconds)" } ?? "")
  }
}
