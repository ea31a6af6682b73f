package import ApusModel
import ApusWire

extension Explanation {
  /// The reason as a sentence: what was wrong, and what to do. For logs and the console, not for hot paths.
  ///
  /// Header values are shown escaped and truncated; an authorization field or a device token is never shown.
  package func text(fields: borrowing RequestFields, directory: Directory) -> String {
    if let text = authenticationText { return text }
    if let text = topicText(fields: fields, directory: directory) { return text }
    if case .channel(let fault) = self { return fault.text(fields: fields, directory: directory) }
    return requestText(fields: fields)
  }

  /// For step 5; nil for all others.
  private var authenticationText: String? {
    switch self {
    case .authorizationMissing:
      "the connection has no certificate and the request no provider token: send an "
        + "authorization field"
    case .authorizationNotBearer:
      "the authorization field is not \"bearer\" followed by a provider token"
    case .token(let fault): fault.text
    case .signature(let key, let issuer):
      "the provider token names key \(key.text) of team \(issuer.text), but its signature does not match that key: "
        + "sign with the key that it names"
    case .unknownKey(let key):
      "the provider token is signed with key \(key.text), which is not registered: check the key id"
    case .keyOfOtherTeam(let key, let owner, let issuer):
      "key \(key.text) belongs to team \(owner.text); the provider token names team \(issuer.text)"
    case .revokedKey(let key): "key \(key.text) is revoked: sign with another key"
    case .tokenInFuture(let seconds):
      "the provider token was issued \(seconds) s in the future, but may be at most "
        + "\(Limits.providerTokenAheadSeconds) s ahead: check the provider's clock"
    case .tokenTooOld(let seconds):
      "the provider token is \(seconds) s old, but is valid for \(Limits.providerTokenSeconds) s: "
        + "issue a new one"
    case .keyEnvironment(let key, let listener):
      "key \(key.text) is for \(listener.other.name); this listener is for \(listener.name)"
    case .otherTeam(let first, let now):
      "the connection was first used for team \(first.text), now for \(now.text): open a "
        + "connection for each team"
    case .otherKeyKind(let first, let now):
      "one of keys \(first.text) and \(now.text) is team-scoped, the other topic-specific: open "
        + "a connection for each"
    case .unrelatedKey(let first, let now):
      "the connection was first used with key \(first.text), to which \(now.text) is not "
        + "related: open a connection for each"
    case .tokenChangedTooSoon(let seconds):
      "the provider token changed too soon: use one token for at least "
        + "\(Limits.providerTokenRefreshSeconds) s; the next may come in \(seconds) s"
    case .certificateUnusable:
      "the connection's certificate is not a push certificate, or has a broken extension: it "
        + "needs a bundle id as UID, a team id as OU and an environment"
    case .certificateTopicMissing:
      "the connection's certificate names no topic and team: it needs a bundle id as UID and a "
        + "team id as OU"
    case .certificateRevoked: "the connection's certificate is revoked"
    case .certificateAuthority:
      "the authority that issued the connection's certificate is no longer trusted: have a new "
        + "certificate issued"
    case .certificateExpired:
      "the connection's certificate has expired: connect with one that is valid"
    case .certificateEnvironment(let listener):
      "the certificate is for \(listener.other.name), but this listener is for \(listener.name): "
        + "use the other listener, or have it issued for both"
    default: nil
    }
  }

  /// For steps 10 and 11, which concern topics; nil for all others.
  private func topicText(fields: borrowing RequestFields, directory: Directory) -> String? {
    func name(_ topic: TopicKey) -> String {
      directory.topicText(topic).map { shown($0) } ?? "of app \(topic.app.rawValue)"
    }
    return switch self {
    case .topicUnknown:
      "no app is registered for topic \(shown(fields.value(.apnsTopic))): register its bundle id"
    case .topicOfOtherTeam(let topic, let owner, let team):
      "topic \(name(topic)) belongs to team \(owner.text); the credential is of team \(team.text)"
    case .topicNotOfKey(let topic, let key):
      "topic \(name(topic)) is not assigned to key \(key.text)"
    case .topicNotOfCertificate(let topic):
      "topic \(name(topic)) is not in the connection's certificate"
    case .topicForOtherPushType(let type):
      "a push of type \(type.name) needs a topic that ends in "
        + "\"\(type.topicSuffix.text)\", not in the suffix of another type; it was "
        + shown(fields.value(.apnsTopic))
    case .deviceTokenOfOtherTopic(let token, let request):
      "the device token was issued for topic \(name(token)); the request is for \(name(request))"
    default: nil
    }
  }

  /// For the head, the fields, the body and the device token.
  private func requestText(fields: borrowing RequestFields) -> String {
    switch self {
    case .headerListTooLarge:
      "the header fields take more than \(Limits.headerListBytes) bytes"
    case .pathUnknown:
      "the path is not /3/device/ and a device token: \(Self.pathHead(fields))"
    case .methodNotPost: "the method is \(shown(fields.value(.method))), not POST"
    case .duplicate(let name): "field \(name.text) occurs \(fields.occurrences(of: name)) times"
    case .malformed(let name):
      "field \(name.text) has the invalid value \(shown(fields.value(name)))"
    case .collapseIDTooLong(let count):
      "\(HeaderName.apnsCollapseID.text) has \(count) bytes; at most \(Limits.collapseIDBytes) are allowed"
    case .backgroundAtOnce: "a background push cannot have priority 10: use 5"
    case .topicMissing:
      "the request names no topic: send \(HeaderName.apnsTopic.text)"
    case .topicMissingOfSeveral:
      "the certificate is for several topics, but the request has none: send "
        + "\(HeaderName.apnsTopic.text)"
    case .frame(let fault): fault.description
    case .priorityUnknown(let priority): "the priority is \(priority): it must be 10 or 5"
    case .payloadEmpty: "the request has no body"
    case .payloadTooLarge(let count, let limit):
      "the payload has \(count) bytes; at most \(limit) are allowed for this push type"
    case .payloadNotJSON(let fault): "the payload is not a JSON object: \(fault)"
    case .payloadWithoutAPS: "the payload has no \"aps\" dictionary"
    case .deviceTokenMissing: "the path ends where the device token should begin"
    case .deviceTokenLength(let count):
      "the device token has \(count) digits; tokens of this service have "
        + "\(2 * DeviceToken.byteCount)"
    case .deviceTokenNotHex: "the device token is not hexadecimal"
    case .deviceTokenForeign:
      "this service did not issue the device token, or its sealing key has since been removed"
    case .deviceTokenOfProbe:
      "the device token is all zeros: the provider is testing its credential, which is valid; further ones "
        + "on this connection are not logged, and none is counted"
    case .deviceTokenEnvironment(let issued):
      "token is for the other environment: it was issued for \(issued.name), this listener is for "
        + issued.other.name
    case .inactiveToken: "the app was removed from the device, or the token is outdated"
    case .tooManyConnections:
      "the team has too many connections at once: use fewer, with more requests on each"
    case .tooManyToDevice: "too many requests to one device token"
    default: "rejected as \(reason.text)"
    }
  }

  /// The path up to the eighth digit of a possible device token.
  private static func pathHead(_ fields: borrowing RequestFields) -> String {
    let count = min(fields.value(.path).count, 18)
    return shown(fields.value(.path).extracting(0..<count))
  }
}

extension TokenFault {
  var text: String {
    switch self {
    case .tooLong: "the provider token is longer than \(Limits.providerTokenBytes) bytes"
    case .malformed: "the provider token cannot be read: it must be a JWT of three base64url parts"
    case .wrongAlgorithm: "the provider token's alg is not ES256"
    case .missingClaims: "the provider token lacks kid, iss or iat, or one is not valid"
    case .badSignature: "the provider token's signature does not match its key"
    }
  }
}
