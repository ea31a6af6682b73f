package import ApusModel
package import ApusWire

/// A rejected request: the answer for the provider, and the explanation for the operator.
///
/// Small and without references: creating one costs nothing. The text is built only for logging.
package struct Refusal: Error, Sendable, Hashable {
  package var explanation: Explanation

  package init(_ explanation: Explanation) { self.explanation = explanation }

  package var reason: Reason { explanation.reason }

  /// The provider's answer.
  package var rejection: Rejection {
    if case .inactiveToken(let milliseconds) = explanation {
      return Rejection(reason, timestampMilliseconds: milliseconds)
    }
    return Rejection(reason)
  }
}

/// What was wrong with a provider token before its signature was verified.
package enum TokenFault: UInt8, Sendable, Hashable, CaseIterable {
  case tooLong
  case malformed
  case wrongAlgorithm
  case missingClaims
  case badSignature
}

/// Exactly why a request was rejected. One reason on the wire stands for several of these.
package enum Explanation: Sendable, Hashable {
  // Steps 1 to 4: the head.
  case headerListTooLarge
  case pathUnknown
  case methodNotPost
  case duplicate(HeaderName)

  // Step 5: the credential.
  case authorizationMissing
  case authorizationNotBearer
  case token(TokenFault)
  case signature(key: ShortID, issuer: ShortID)
  case unknownKey(ShortID)
  case keyOfOtherTeam(key: ShortID, owner: ShortID, issuer: ShortID)
  case revokedKey(ShortID)
  case tokenInFuture(seconds: Int64)
  case tokenTooOld(seconds: Int64)
  case keyEnvironment(key: ShortID, listener: Environment)
  case otherTeam(first: ShortID, now: ShortID)
  case otherKeyKind(first: ShortID, now: ShortID)
  case unrelatedKey(first: ShortID, now: ShortID)
  case tokenChangedTooSoon(secondsLeft: Int64)
  case certificateUnusable
  case certificateRevoked
  case certificateAuthority
  case certificateExpired
  case certificateEnvironment(listener: Environment)
  case certificateTopicMissing
  /// The credential is valid, but its team has as many connections as it may.
  case tooManyConnections

  // The binary interface: instead of the fields.
  case frame(BinaryFrameFault)
  case priorityUnknown(UInt8)

  // Steps 6 and 7: the fields.
  case malformed(HeaderName)
  case collapseIDTooLong(byteCount: Int)
  case backgroundAtOnce
  case topicMissing
  case topicMissingOfSeveral

  // Step 8: the body.
  case payloadEmpty
  case payloadTooLarge(byteCount: Int, limit: Int)
  case payloadNotJSON(JSONFault)
  case payloadWithoutAPS

  // Step 9: the device token.
  case deviceTokenMissing
  case deviceTokenLength(digitCount: Int)
  case deviceTokenNotHex
  case deviceTokenForeign
  /// All zeros: a peer with a valid credential tests it, as `apus doctor` does.
  case deviceTokenOfProbe
  case deviceTokenEnvironment(issued: Environment)

  // Steps 10 to 13: what the credential covers, and the state of the device token.
  case topicUnknown
  case topicOfOtherTeam(topic: TopicKey, owner: ShortID, team: ShortID)
  case topicNotOfKey(topic: TopicKey, key: ShortID)
  case topicNotOfCertificate(TopicKey)
  case topicForOtherPushType(PushType)
  case deviceTokenOfOtherTopic(token: TopicKey, request: TopicKey)
  case inactiveToken(sinceMilliseconds: Int64)
  case tooManyToDevice

  /// A request about channels.
  case channel(ChannelFault)

  /// The reason on the wire. "Handling notification responses from APNs".
  package var reason: Reason {
    switch self {
    case .headerListTooLarge: .headerListTooLarge
    case .pathUnknown: .badPath
    case .methodNotPost: .methodNotAllowed
    case .duplicate: .duplicateHeaders
    case .authorizationMissing, .authorizationNotBearer: .missingProviderToken
    case .token, .signature, .unknownKey, .keyOfOtherTeam, .revokedKey, .tokenInFuture:
      .invalidProviderToken
    case .tokenTooOld: .expiredProviderToken
    case .keyEnvironment: .badEnvironmentKeyInToken
    case .otherTeam, .otherKeyKind, .unrelatedKey: .unrelatedKeyIDInToken
    case .tokenChangedTooSoon: .tooManyProviderTokenUpdates
    case .certificateRevoked, .certificateAuthority, .certificateExpired, .certificateUnusable,
      .certificateTopicMissing:
      .badCertificate
    case .frame(let fault): Self.reason(fault)
    case .priorityUnknown: .badPriority
    case .certificateEnvironment: .badCertificateEnvironment
    case .malformed(let name): Self.reason(malformed: name)
    case .collapseIDTooLong: .badCollapseID
    case .backgroundAtOnce: .badPriority
    case .topicMissing, .topicMissingOfSeveral: .missingTopic
    case .payloadEmpty: .payloadEmpty
    case .payloadTooLarge: .payloadTooLarge
    case .payloadNotJSON, .payloadWithoutAPS: .badRequestPayload
    case .deviceTokenMissing: .missingDeviceToken
    case .deviceTokenLength, .deviceTokenNotHex, .deviceTokenForeign, .deviceTokenOfProbe,
      .deviceTokenEnvironment:
      .badDeviceToken
    case .topicUnknown, .topicOfOtherTeam, .topicNotOfKey, .topicNotOfCertificate,
      .topicForOtherPushType:
      .topicDisallowed
    case .deviceTokenOfOtherTopic: .deviceTokenNotForTopic
    case .inactiveToken: .unregistered
    case .tooManyConnections, .tooManyToDevice: .tooManyRequests
    case .channel(let fault): fault.reason
    }
  }

  /// The closest reason of the HTTP/2 interface, for logs and counters.
  private static func reason(_ fault: BinaryFrameFault) -> Reason {
    switch fault {
    case .tokenMissing: .missingDeviceToken
    case .tokenLength: .badDeviceToken
    case .payloadMissing: .payloadEmpty
    case .payloadTooLong: .payloadTooLarge
    case .unknownCommand, .frameTooLong, .itemBeyondFrame, .unknownItem, .repeatedItem,
      .itemLength:
      .badRequestPayload
    }
  }

  private static func reason(malformed name: HeaderName) -> Reason {
    switch name {
    case .apnsID, .apnsRequestID: .badMessageID
    case .apnsExpiration: .badExpirationDate
    case .apnsPriority: .badPriority
    case .apnsPushType: .invalidPushType
    case .apnsCollapseID: .badCollapseID
    default: .badTopic
    }
  }

  /// Whether the request lacked authorization: the service's operator can act on that. The other causes are the
  /// provider's own.
  package var concernsTrust: Bool {
    switch self {
    case .authorizationMissing, .authorizationNotBearer, .token, .signature, .unknownKey,
      .keyOfOtherTeam, .revokedKey, .tokenInFuture, .tokenTooOld, .keyEnvironment, .otherTeam,
      .otherKeyKind, .unrelatedKey, .tokenChangedTooSoon, .certificateUnusable,
      .certificateRevoked, .certificateAuthority, .certificateExpired, .certificateEnvironment,
      .certificateTopicMissing,
      .deviceTokenForeign, .deviceTokenOfProbe, .deviceTokenEnvironment, .topicUnknown,
      .topicOfOtherTeam,
      .topicNotOfKey, .topicNotOfCertificate, .topicForOtherPushType, .deviceTokenOfOtherTopic:
      true
    case .headerListTooLarge, .pathUnknown, .methodNotPost, .duplicate, .frame, .priorityUnknown,
      .malformed, .collapseIDTooLong, .backgroundAtOnce, .topicMissing, .topicMissingOfSeveral,
      .payloadEmpty, .payloadTooLarge, .payloadNotJSON, .payloadWithoutAPS, .deviceTokenMissing,
      .deviceTokenLength, .deviceTokenNotHex, .inactiveToken,
      .tooManyConnections, .tooManyToDevice:
      false
    case .channel(let fault): fault.concernsTrust
    }
  }

  /// The status in the error packet of the binary interface. "Binary Provider API", Table A-1.
  package var status: BinaryStatus {
    switch self {
    case .frame(let fault): fault.status
    case .certificateTopicMissing, .topicUnknown, .topicOfOtherTeam: .missingTopic
    case .deviceTokenForeign, .deviceTokenOfProbe, .deviceTokenEnvironment,
      .deviceTokenOfOtherTopic:
      .invalidToken
    default: .processingError
    }
  }
}
