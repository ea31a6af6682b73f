package import ApusModel

/// What an answer from upstream means for a notification in the spool, and for its provider.
///
/// Rejections are divided by who can act on them. What the notification brought along (device token, payload,
/// expiration, priority, collapse id, push type) is its provider's: another attempt would get the same answer. What
/// this service wrote (path, method, topic, credential) is the operator's: nothing is reported to the provider, which
/// could not help it, and might delete good tokens. Everything else concerns the moment.
///
/// The reason decides; the status only if there is no reason, or an unknown one. Sources: "Handling notification
/// responses from APNs"; "Binary Provider API", Table A-1.
package enum UpstreamVerdict: Sendable, Hashable {
  /// Upstream is responsible from here on.
  case accepted(uniqueID: String?)
  /// Not a token of this app in this environment: status 8 for a legacy sender, as far as ``ConfigurationAlarm``
  /// permits.
  case badToken
  /// The app was removed from the device. The notification counts as accepted, and the feedback service lists the
  /// token. Unix milliseconds, 0 or later; nil if upstream names no possible time.
  case dead(sinceMilliseconds: Int64?)
  /// The notification itself is at fault. The status is for a legacy sender, which does not send it again.
  case refused(BinaryStatus)
  /// The gateway's own configuration is at fault: keep the notification, tell the operator, and try again.
  case misconfigured
  /// Not accepted now: try again after that many seconds, at most `Limits.upstreamRetryAfterSeconds`; nil if upstream
  /// does not say. If `isForAll` is false, other notifications need not wait.
  case later(afterSeconds: Int?, isForAll: Bool)
  /// No answer: try again, under the same id. If `mayDuplicate` is true, the device may then get it twice.
  case again(mayDuplicate: Bool)
}

extension UpstreamVerdict {
  package init(_ answer: UpstreamAnswer) {
    switch answer {
    case .accepted(let uniqueID): self = .accepted(uniqueID: uniqueID)
    case .unknown(let mayHaveArrived): self = .again(mayDuplicate: mayHaveArrived)
    case .rejected(let rejection):
      if let reason = rejection.known {
        self = .init(reason, of: rejection)
      } else {
        self = .init(unknownReasonOf: rejection)
      }
    }
  }

  private init(_ reason: Reason, of rejection: UpstreamRejection) {
    switch reason {
    case .badDeviceToken, .deviceTokenNotForTopic: self = .badToken
    case .unregistered, .expiredToken: self = .dead(of: rejection)
    case .missingDeviceToken: self = .refused(.missingDeviceToken)
    case .payloadEmpty: self = .refused(.missingPayload)
    case .payloadTooLarge: self = .refused(.invalidPayloadSize)
    // The binary interface has no status for these. Status 1 makes its senders drop the one notification; 255 says
    // nothing, and senders that keep statuses in signed bytes do not know it.
    case .badCollapseID, .badExpirationDate, .badMessageID, .badPriority, .invalidPushType,
      .badRequestPayload:
      self = .refused(.processingError)
    // The credential. Its token is renewed in time, so one that expired hints at a wrong clock.
    case .badCertificate, .badCertificateEnvironment, .expiredProviderToken, .forbidden,
      .invalidProviderToken, .missingProviderToken, .unrelatedKeyIDInToken,
      .badEnvironmentKeyInToken, .topicMismatch:
      self = .misconfigured
    // The topic and the form of the request are the same for all notifications of an app.
    case .badTopic, .missingTopic, .topicDisallowed, .badPath, .methodNotAllowed,
      .duplicateHeaders, .headerListTooLarge:
      self = .misconfigured
    // Reasons about channels: upstream takes the requests for something other than pushes to devices.
    case .badChannelID, .badRequestParams, .cannotCreateChannelConfig, .channelNotRegistered,
      .featureNotEnabled, .missingChannelID, .missingPushType:
      self = .misconfigured
    // Too many to this one token.
    case .tooManyRequests: self = .later(after: rejection, isForAll: false)
    // The connection was idle, or ends: the next one serves at once.
    case .idleTimeout, .shutdown: self = .later(after: rejection, isForAll: false)
    case .tooManyProviderTokenUpdates, .internalServerError, .serviceUnavailable:
      self = .later(after: rejection, isForAll: true)
    }
  }

  /// A reason that came later than this program, or none, as from a proxy.
  private init(unknownReasonOf rejection: UpstreamRejection) {
    switch rejection.status {
    // Most reasons with 400 reject what the provider wrote, and that does not change. Status 1 costs it this one
    // notification; 8 would cost it the token.
    case 400: self = .refused(.processingError)
    case 410: self = .dead(of: rejection)
    case 413: self = .refused(.invalidPayloadSize)
    case 408, 429, 500...: self = .later(after: rejection, isForAll: true)
    // 401, 403, 404 and 405 reject credential or address. No push service sends the others: something else is at the
    // address.
    default: self = .misconfigured
    }
  }

  private static func dead(of rejection: UpstreamRejection) -> Self {
    .dead(sinceMilliseconds: rejection.timestampMilliseconds.flatMap { $0 < 0 ? nil : $0 })
  }

  private static func later(after rejection: UpstreamRejection, isForAll: Bool) -> Self {
    let seconds = rejection.retryAfterSeconds.map {
      min(max($0, 0), Limits.upstreamRetryAfterSeconds)
    }
    return .later(afterSeconds: seconds, isForAll: isForAll)
  }
}
