package import ApusModel

/// What a request's credential was found to be good for.
///
/// A request carries its own from the head to the body: meanwhile another request may have brought another token.
package struct Grant: Sendable, Hashable {
  package enum Scope: Sendable, Hashable {
    /// Every topic of the team.
    case team
    /// The topics assigned to a key.
    case key(ShortID)
    /// The topics of the connection's certificate.
    case certificate
  }

  package var team: ShortID
  package var scope: Scope

  package init(team: ShortID, scope: Scope) {
    self.team = team
    self.scope = scope
  }
}

/// The outcome of step 5 for one request.
package enum Authentication: Sendable, Hashable {
  case trusted(Grant)
  case refused(Refusal)
  /// The token, at this place in the authorization field, was not seen on this connection before: the driver reads it,
  /// checks its signature, and calls `verified` or `verificationFailed`.
  case needsVerification(token: Range<Int>)
}

/// Who is at the other end of a provider's HTTP/2 connection: the rules of "Establishing a token-based connection to
/// APNs" and "Establishing a certificate-based connection to APNs" that hold over a connection's life.
///
/// A value without I/O or clock, and not to be copied: trust belongs to one connection. The driver calls
/// ``authenticate(_:directory:nowSeconds:)`` for every request.
package struct ProviderConnection: ~Copyable, Sendable {
  /// That of the door.
  package let environment: Environment
  /// Whether a request was ever trusted: then the driver raises the limit of concurrent streams.
  package private(set) var isTrusted = false

  let certificate: CertificateCredential?
  /// The certificate's topics that are registered in the directory last seen.
  private(set) var certificateTopics: [TopicKey] = []
  private var certificateExplanation: Explanation?

  /// The directory for which `current` and the certificate were last judged; 0 for none.
  private var generation: UInt64 = 0
  /// The last token that was trusted, and what for.
  private var current = CheckedToken()
  private var currentGrant: Grant?
  /// Another token with a good signature: the one before, or one that was refused for another cause. It saves a
  /// signature check for each request of a provider whose processes take turns with two tokens.
  private var spare = CheckedToken()
  /// The key of the first push; tokens of later ones must be related to it.
  private var firstKey: ProviderKey?
  /// When the current token counts as changed. See `clockAfter`.
  private var changedSeconds: Int64 = 0

  /// A connection without a certificate: each request brings a token.
  package init(environment: Environment) {
    self.environment = environment
    certificate = nil
  }

  /// A connection with a certificate that the handshake has found valid. Its requests' authorization is ignored.
  ///
  /// Throws BadCertificate and BadCertificateEnvironment: the reason of the GOAWAY.
  package init(
    environment: Environment, certificate: CertificateCredential, directory: Directory
  ) throws(Refusal) {
    self.environment = environment
    self.certificate = certificate
    examineCertificate(certificate, directory)
    if let explanation = certificateExplanation { throw Refusal(explanation) }
    isTrusted = true
  }

  /// A connection whose certificate is not good here, for a stand-in that takes any: its requests are refused for that,
  /// each by itself.
  package init(environment: Environment, refused certificate: CertificateCredential) {
    self.environment = environment
    self.certificate = certificate
  }

  /// Whether a certificate speaks for its requests.
  package var hasCertificate: Bool { certificate != nil }

  /// The topic of requests that name none.
  package var defaultTopic: [UInt8]? { certificate?.defaultTopic }

  /// Whether a request may go on as far as its sender is concerned.
  package mutating func authenticate(
    _ fields: borrowing RequestFields, directory: Directory, nowSeconds: Int64
  ) -> Authentication {
    if let certificate { return authenticate(certificate, directory) }
    let field = fields.value(.authorization)
    if current.came(as: field) {
      return recheckCurrent(directory: directory, nowSeconds: nowSeconds)
    }
    if spare.came(as: field) {
      return judgeSpare(directory: directory, nowSeconds: nowSeconds)
    }
    switch BearerField(field) {
    // "MissingProviderToken: no provider certificate was used to connect, and the authorization header is missing or
    // no provider token is specified."
    case .missing: return .refused(Refusal(.authorizationMissing))
    case .notBearer: return .refused(Refusal(.authorizationNotBearer))
    case .token(let range):
      guard range.count <= Limits.providerTokenBytes else {
        return .refused(Refusal(.token(.tooLong)))
      }
      return .needsVerification(token: range)
    }
  }

  /// The driver found the signature good, with the key that `directory.verificationKey` gave.
  package mutating func verified(
    _ token: VerifiedToken, fields: borrowing RequestFields, directory: Directory,
    nowSeconds: Int64
  ) -> Authentication {
    guard let key = directory.key(token.keyID) else {
      return .refused(Refusal(.unknownKey(token.keyID)))
    }
    spare.field.set(fields.value(.authorization))
    spare.token = token
    spare.publicKey = key.publicKey
    return judgeSpare(directory: directory, nowSeconds: nowSeconds)
  }

  /// The driver could not read the token, or its signature is not good. What was trusted before stays so.
  package func verificationFailed(_ fault: TokenFault) -> Authentication {
    .refused(Refusal(.token(fault)))
  }

  /// The last second in which the certificate is valid, Unix seconds; nil where there is none.
  package var certificateNotAfterSeconds: Int64? { certificate?.notAfterSeconds }

  /// Looks again at what the connection was trusted for, after a new directory came or the certificate's time was over.
  /// The time is that by which handshakes judge certificates.
  ///
  /// Returns the reason for which the driver should end the connection: a key that is revoked, removed or another one
  /// now, a certificate that is revoked or has expired, an authority that is no longer trusted. Requests would be
  /// refused for it one by one; a connection that nothing authorizes any more is not to stay open.
  package mutating func reexamine(directory: Directory, nowSeconds: Int64) -> Refusal? {
    if let certificate {
      examineCertificate(certificate, directory)
      if certificateExplanation == nil, nowSeconds > certificate.notAfterSeconds {
        certificateExplanation = .certificateExpired
      }
      return certificateExplanation.map { Refusal($0) }
    }
    guard let grant = currentGrant else { return nil }
    do {
      let key = try directory.verificationKey(current.token.keyID, issuer: grant.team)
      guard key.publicKey == current.publicKey else {
        return Refusal(.signature(key: key.id, issuer: grant.team))
      }
      return key.environments.contains(environment)
        ? nil : Refusal(.keyEnvironment(key: key.id, door: environment))
    } catch {
      return error
    }
  }
}

// MARK: - Certificates

extension ProviderConnection {
  private mutating func authenticate(
    _ certificate: CertificateCredential, _ directory: Directory
  ) -> Authentication {
    if generation != directory.generation { examineCertificate(certificate, directory) }
    if let explanation = certificateExplanation { return .refused(Refusal(explanation)) }
    return .trusted(Grant(team: certificate.team, scope: .certificate))
  }

  private mutating func examineCertificate(
    _ certificate: CertificateCredential, _ directory: Directory
  ) {
    generation = directory.generation
    certificateExplanation = directory.fault(of: certificate, in: environment)
    certificateTopics = certificate.topics.compactMap { directory.resolve($0.span)?.key }
  }
}

// MARK: - Tokens

extension ProviderConnection {
  /// Decides about the token that was trusted last: under the same directory only time can have changed anything.
  @inline(__always)
  private mutating func recheckCurrent(
    directory: Directory, nowSeconds: Int64
  ) -> Authentication {
    guard generation == directory.generation, let grant = currentGrant else {
      return judgeCurrent(directory: directory, nowSeconds: nowSeconds)
    }
    if let explanation = current.token.ageExplanation(nowSeconds: nowSeconds) {
      return .refused(Refusal(explanation))
    }
    return .trusted(grant)
  }

  private mutating func judgeCurrent(
    directory: Directory, nowSeconds: Int64
  ) -> Authentication {
    switch judge(current, directory: directory, nowSeconds: nowSeconds) {
    case .refused(let refusal): .refused(refusal)
    case .outdated(let token): .needsVerification(token: token)
    case .good(let key): trust(key, directory: directory)
    }
  }

  /// A refused token does not replace the bound one: it stays the spare.
  private mutating func judgeSpare(
    directory: Directory, nowSeconds: Int64
  ) -> Authentication {
    // A clock that was set back must not hold the next token off for longer than the rule says.
    changedSeconds = min(changedSeconds, nowSeconds)
    switch judge(spare, directory: directory, nowSeconds: nowSeconds) {
    case .refused(let refusal): return .refused(refusal)
    case .outdated(let token): return .needsVerification(token: token)
    case .good(let key):
      if currentGrant == nil || !spare.token.isSameIssue(as: current.token) {
        changedSeconds = clockAfter(spare.token, nowSeconds: nowSeconds)
      }
      swap(&current, &spare)
      if firstKey == nil { firstKey = key }
      isTrusted = true
      return trust(key, directory: directory)
    }
  }

  private mutating func trust(_ key: ProviderKey, directory: Directory) -> Authentication {
    let grant = Grant(team: key.team, scope: key.isTeamScoped ? .team : .key(key.id))
    currentGrant = grant
    generation = directory.generation
    return .trusted(grant)
  }

  private enum Judgement {
    case refused(Refusal)
    /// The key is another one now than that which found the signature good.
    case outdated(Range<Int>)
    case good(ProviderKey)
  }

  private func judge(
    _ checked: CheckedToken, directory: Directory, nowSeconds: Int64
  ) -> Judgement {
    do {
      let key = try examine(checked.token, directory: directory, nowSeconds: nowSeconds)
      if key.publicKey != checked.publicKey,
        case .token(let range) = BearerField(checked.field.span)
      {
        return .outdated(range)
      }
      return .good(key)
    } catch {
      return .refused(error)
    }
  }

  /// The decision table of a token whose signature is good, from top to bottom.
  private func examine(
    _ token: VerifiedToken, directory: Directory, nowSeconds: Int64
  ) throws(Refusal) -> ProviderKey {
    // "InvalidProviderToken": unknown kid, kid not of iss, revoked key.
    let key = try directory.verificationKey(token.keyID, issuer: token.issuer)
    // "ExpiredProviderToken", and InvalidProviderToken for the future.
    if let explanation = token.ageExplanation(nowSeconds: nowSeconds) {
      throw Refusal(explanation)
    }
    // Before the device token is looked at: a made-up one gets this answer at the wrong door.
    guard key.environments.contains(environment) else {
      throw Refusal(.keyEnvironment(key: key.id, door: environment))
    }
    if var first = firstKey {
      // A related key may be named after the first push: that is how a key is rotated out.
      first.relatedKey = directory.key(first.id)?.relatedKey ?? first.relatedKey
      if let explanation = Self.relation(of: key, to: first) { throw Refusal(explanation) }
    }
    // "TooManyProviderTokenUpdates".
    if currentGrant != nil, !token.isSameIssue(as: current.token) {
      let wait = saturatingDifference(
        changedSeconds + Limits.providerTokenRefreshSeconds, nowSeconds)
      if wait > 0 { throw Refusal(.tokenChangedTooSoon(secondsLeft: wait)) }
    }
    return key
  }

  /// Nil where pushes with both keys may share a connection.
  ///
  /// "UnrelatedKeyIdInToken: the key ID in the provider token isn't related to the key ID of the token used in the
  /// first push of this connection."
  private static func relation(of key: ProviderKey, to first: ProviderKey) -> Explanation? {
    guard key.id != first.id || key.team != first.team else { return nil }
    guard key.team == first.team else { return .otherTeam(first: first.team, now: key.team) }
    guard key.isTeamScoped == first.isTeamScoped else {
      return .otherKeyKind(first: first.id, now: key.id)
    }
    // Two team-scoped keys cover the same topics: that is how a team rotates.
    guard !key.isTeamScoped else { return nil }
    guard key.relatedKey == first.id || first.relatedKey == key.id else {
      return .unrelatedKey(first: first.id, now: key.id)
    }
    return nil
  }

  /// When a token that is trusted now counts as changed: when it was issued, but not before the last change allowed
  /// another.
  ///
  /// "Refresh your token no more than once every 20 minutes" binds the provider's own clock. Counting from the
  /// request would refuse one that keeps to it: a token issued 19 minutes ago may be the first of a new connection,
  /// and its successor follows a minute later. Changes remain 20 minutes apart on this count, and never in the future.
  private func clockAfter(_ token: VerifiedToken, nowSeconds: Int64) -> Int64 {
    let issued = min(token.issuedAtSeconds, nowSeconds)
    guard currentGrant != nil else { return issued }
    return min(max(issued, changedSeconds + Limits.providerTokenRefreshSeconds), nowSeconds)
  }
}
