package import ApusModel

/// Exactly why a request about channels was rejected, where device requests have no such fault.
///
/// Source of the reasons: "Handling error responses from APNs", its table for channels and broadcasts.
package enum ChannelFault: Sendable, Hashable {
  // The head.
  /// The path is none of the channel management API.
  case pathUnknown
  case methodUnknown(ChannelPath)
  /// The path begins as that of a broadcast, and does not name one app.
  case broadcastPathUnknown

  // The app of the path.
  /// The path names a topic with the suffix of a push type: channels belong to a bundle id.
  case bundleWithSuffix
  case bundleUnknown
  case bundleOfOtherTeam(app: AppID, owner: ShortID, team: ShortID)
  case bundleNotOfKey(app: AppID, key: ShortID)
  case bundleNotOfCertificate(app: AppID)
  case broadcastsOff(AppID)

  // The channel.
  case idMissing
  case idNotBase64
  case idTooLong(byteCount: Int)
  case unknown(AppID)

  // The body of a new channel.
  case bodyTooLarge(byteCount: Int)
  case memberUnknown
  case memberTwice
  case policyMissing
  case policyUnknown
  case pushTypeMissing
  case pushTypeUnknown
  /// The app has as many channels as it may.
  case tooMany(AppID)

  // A broadcast.
  case broadcastTypeMissing
  case broadcastTypeUnknown
  case expirationMissing
  /// An expiration on a channel that stores nothing.
  case expirationWithoutStorage
  case priorityMissing
  /// The payload would start a Live Activity.
  case startsActivity

  package var reason: Reason {
    switch self {
    case .pathUnknown, .broadcastPathUnknown: .badPath
    case .methodUnknown: .methodNotAllowed
    case .bundleWithSuffix: .topicDisallowed
    case .bundleUnknown, .bundleOfOtherTeam, .bundleNotOfKey, .bundleNotOfCertificate:
      .topicMismatch
    case .broadcastsOff: .featureNotEnabled
    case .idMissing: .missingChannelID
    case .idNotBase64, .idTooLong: .badChannelID
    case .unknown: .channelNotRegistered
    case .bodyTooLarge: .payloadTooLarge
    case .memberUnknown, .memberTwice, .policyMissing, .policyUnknown: .badRequestParams
    case .pushTypeMissing, .broadcastTypeMissing: .missingPushType
    case .pushTypeUnknown, .broadcastTypeUnknown: .invalidPushType
    case .expirationMissing, .expirationWithoutStorage: .badExpirationDate
    case .priorityMissing: .badPriority
    case .startsActivity: .badRequestPayload
    case .tooMany: .cannotCreateChannelConfig
    }
  }

  /// Whether the request lacked authorization.
  var concernsTrust: Bool {
    switch self {
    case .bundleUnknown, .bundleOfOtherTeam, .bundleNotOfKey, .bundleNotOfCertificate: true
    default: false
    }
  }

  /// What was wrong, and what to do.
  func text(fields: borrowing RequestFields, directory: Directory) -> String {
    if let text = appText(directory) ?? broadcastText(fields: fields) { return text }
    return switch self {
    case .pathUnknown:
      "the path is not /1/apps/BUNDLE-ID/channels or /1/apps/BUNDLE-ID/all-channels: "
        + shown(fields.value(.path))
    case .methodUnknown(let path):
      "the method is \(shown(fields.value(.method))); \(path.text) knows \(path.methods)"
    case .bundleWithSuffix:
      "the path names a topic with the suffix of a push type: name the app's bundle id alone"
    case .bundleUnknown: "no app is registered for the bundle id of the path: register it"
    case .idMissing: "the request names no channel: send \(HeaderName.apnsChannelID.text)"
    case .idNotBase64:
      "\(HeaderName.apnsChannelID.text) is not base64: \(shown(fields.value(.apnsChannelID)))"
    case .idTooLong(let count):
      "the channel id has \(count) bytes; at most \(Limits.channelIDBytes) are allowed"
    case .bodyTooLarge(let count):
      "the body has \(count) bytes; a new channel needs at most \(Limits.channelBodyBytes)"
    case .memberUnknown:
      "the body has a member other than \(ChannelBody.policyKey) and \(ChannelBody.pushTypeKey)"
    case .memberTwice: "the body has a member twice"
    case .policyMissing: "the body has no \(ChannelBody.policyKey): send 0 or 1"
    case .policyUnknown: "\(ChannelBody.policyKey) is not 0 or 1"
    case .pushTypeMissing: "the body has no \(ChannelBody.pushTypeKey): send \"LiveActivity\""
    case .pushTypeUnknown: "\(ChannelBody.pushTypeKey) is not \"LiveActivity\""
    default: "rejected as \(reason.text)"
    }
  }

  /// For faults of a broadcast alone; nil for all others.
  private func broadcastText(fields: borrowing RequestFields) -> String? {
    switch self {
    case .broadcastPathUnknown:
      "the path is not /4/broadcasts/apps/BUNDLE-ID: \(shown(fields.value(.path)))"
    case .broadcastTypeMissing:
      "the request names no push type: send \(HeaderName.apnsPushType.text): liveactivity"
    case .broadcastTypeUnknown:
      "\(HeaderName.apnsPushType.text) is not liveactivity: \(shown(fields.value(.apnsPushType)))"
    case .expirationMissing:
      "the request has no \(HeaderName.apnsExpiration.text): send Unix seconds, or 0 for one attempt"
    case .expirationWithoutStorage:
      "\(HeaderName.apnsExpiration.text) is not 0, and the channel stores nothing: send 0"
    case .priorityMissing: "the request has no \(HeaderName.apnsPriority.text): send 10, 5 or 1"
    case .startsActivity:
      "the payload would start a Live Activity: a broadcast can only update it or end it"
    default: nil
    }
  }

  /// For faults that name an app; nil for all others.
  private func appText(_ directory: Directory) -> String? {
    func name(_ app: AppID) -> String {
      directory.app(app).map { shown($0.bundleID) } ?? "\(app.rawValue)"
    }
    return switch self {
    case .bundleOfOtherTeam(let app, let owner, let team):
      "the app \(name(app)) belongs to team \(owner.text); the credential is of team \(team.text)"
    case .bundleNotOfKey(let app, let key):
      "the app \(name(app)) is not assigned to key \(key.text)"
    case .bundleNotOfCertificate(let app):
      "the app \(name(app)) is not in the connection's certificate"
    case .broadcastsOff(let app):
      "broadcasts are off for the app \(name(app)): the operator switches them on with "
        + "`apus app --change \(name(app)) --broadcast on`"
    case .unknown(let app):
      "the app \(name(app)) has no such channel in this environment: create it, or use the other listener"
    case .tooMany(let app):
      "the app \(name(app)) has \(Limits.channelsPerApp) channels, and may have no more: delete some"
    default: nil
    }
  }
}
