package import ApusModel

/// What a request's credential permits.
///
/// A request keeps its own from the head to the body: meanwhile another request may have brought another token.
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

/// The peer of a provider's HTTP/2 connection: the rules of "Establishing a token-based connection to APNs" and
/// "Establishing a certificate-based connection to APNs" over a connection's life.
///
/// A noncopyable value without I/O or clock: trust belongs to one connection. The driver calls
/// ``authenticate(_:directory:nowSeconds:verify:)`` for every request.
package struct ProviderConnection: ~Copyable, Sendable {
  /// That of the listener.
  package let environment: Environment
  /// Whether a request was ever trusted: then the driver raises the limit of concurrent streams.
  package private(set) var isTrusted = false

  let certificate: CertificateCredential?
  /// The certificate's topics that are registered in the last directory used.
  private(set) var certificateTopics: [TopicKey] = []
  private var certificateExplanation: Explanation?

  /// The directory under which `current` and the certificate were last judged; 0 for none.
  private var generation: UInt64 = 0
  /// The last trusted token, and what it permits.
  private var current = CheckedToken()
  private var currentGrant: Grant?
  /// Another token with a valid signature: the previous one, or one rejected for another reason. It saves a signature
  /// check for each request of a provider whose processes alternate between two tokens.
  private var spare = CheckedToken()
  /// The key of the first push; keys of later tokens must be related to it.
  private var firstKey: ProviderKey?
  /// When the current token counts as changed. See `clockAfter`.
  private var changedSeconds: Int64 = 0

  /// A connection without a certificate: each request brings a token.
  package init(environment: Environment) {
    self.environment = environment
    certificate = nil
  }

  /// A connection with a certificate that passed the handshake. The authorization of its requests is ignored.
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

  /// A connection whose certificate is not valid here, for the development service, which accepts any: each of its
  /// requests is rejected for that reason.
  package init(environment: Environment, refused certificate: CertificateCredential) {
    self.environment = environment
    self.certificate = certificate
  }

  /// Whether its requests are authorized by a certificate.
  package var hasCertificate: Bool { certificate != nil }

  /// Whose certificate or token it was; nil before the first token.
  package var team: ShortID? { certificate?.team ?? currentGrant?.team }

  /// The topic of requests without one.
  package var defaultTopic: [UInt8]? { certificate?.defaultTopic }

  /// Decides whether the credential of a request is valid, and returns what it permits.
  ///
  /// - Parameter verify: Reads a provider token that is new on this connection, and verifies its signature with the key
  ///   from `directory.verificationKey`. If it throws, earlier trust remains.
  package mutating func authenticate(
    _ fields: borrowing RequestFields, directory: Directory, nowSeconds: Int64,
    verify: (_ token: Span<UInt8>) throws(Refusal) -> VerifiedToken
  ) throws(Refusal) -> Grant {
    if let certificate { return try authenticate(certificate, directory) }
    let field = fields.value(.authorization)
    if current.came(as: field) {
      if let grant = try recheckCurrent(directory: directory, nowSeconds: nowSeconds) {
        return grant
      }
    } else if spare.came(as: field) {
      if let grant = try judgeSpare(directory: directory, nowSeconds: nowSeconds) { return grant }
    }
    let token = try verify(field.extracting(Self.tokenRange(in: field)))
    guard let key = directory.key(token.keyID) else { throw Refusal(.unknownKey(token.keyID)) }
    spare.field.set(field)
    spare.token = token
    spare.publicKey = key.publicKey
    guard let grant = try judgeSpare(directory: directory, nowSeconds: nowSeconds) else {
      throw Refusal(.token(.malformed))
    }
    return grant
  }

  private static func tokenRange(in field: Span<UInt8>) throws(Refusal) -> Range<Int> {
    switch BearerField(field) {
    // MissingProviderToken: no certificate, and the authorization field is missing or has no token.
    case .missing: throw Refusal(.authorizationMissing)
    case .notBearer: throw Refusal(.authorizationNotBearer)
    case .token(let range):
      guard range.count <= Limits.providerTokenBytes else { throw Refusal(.token(.tooLong)) }
      return range
    }
  }

  /// The last Unix second in which the certificate is valid; nil without a certificate.
  package var certificateNotAfterSeconds: Int64? { certificate?.notAfterSeconds }

  /// Re-examines the connection's trust after a new directory or the expiry of the certificate. Use the clock by which
  /// handshakes judge certificates.
  ///
  /// Returns the reason for which the driver should close the connection: a key that was revoked, removed or replaced,
  /// a certificate that was revoked or has expired, an authority that is no longer trusted. Its requests would be
  /// rejected one by one; a connection without valid credentials should not stay open.
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
        ? nil : Refusal(.keyEnvironment(key: key.id, listener: environment))
    } catch {
      return error
    }
  }
}

// MARK: - Certificates

extension ProviderConnection {
  private mutating func authenticate(
    _ certificate: CertificateCredential, _ directory: Directory
  ) throws(Refusal) -> Grant {
    if generation != directory.generation { examineCertificate(certificate, directory) }
    if let explanation = certificateExplanation { throw Refusal(explanation) }
    return Grant(team: certificate.team, scope: .certificate)
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
  /// Decides on the last trusted token: under the same directory only time can change the result. Nil if the key has
  /// changed since it verified the signature.
  @inline(__always)
  private mutating func recheckCurrent(
    directory: Directory, nowSeconds: Int64
  ) throws(Refusal) -> Grant? {
    guard generation == directory.generation, let grant = currentGrant else {
      let key = try judge(current, directory: directory, nowSeconds: nowSeconds)
      return key.map { trust($0, directory: directory) }
    }
    if let explanation = current.token.ageExplanation(nowSeconds: nowSeconds) {
      throw Refusal(explanation)
    }
    return grant
  }

  /// A rejected token does not replace the current one: it stays the spare. Nil if the key has changed since it
  /// verified the signature.
  private mutating func judgeSpare(
    directory: Directory, nowSeconds: Int64
  ) throws(Refusal) -> Grant? {
    // After the clock was set back, the next token must not be delayed for longer than the rule says.
    changedSeconds = min(changedSeconds, nowSeconds)
    guard let key = try judge(spare, directory: directory, nowSeconds: nowSeconds) else {
      return nil
    }
    if currentGrant == nil || !spare.token.isSameIssue(as: current.token) {
      changedSeconds = clockAfter(spare.token, nowSeconds: nowSeconds)
    }
    swap(&current, &spare)
    if firstKey == nil { firstKey = key }
    isTrusted = true
    return trust(key, directory: directory)
  }

  private mutating func trust(_ key: ProviderKey, directory: Directory) -> Grant {
    let grant = Grant(team: key.team, scope: key.isTeamScoped ? .team : .key(key.id))
    currentGrant = grant
    generation = directory.generation
    return grant
  }

  /// Nil if the key has changed since it verified the signature.
  private func judge(
    _ checked: CheckedToken, directory: Directory, nowSeconds: Int64
  ) throws(Refusal) -> ProviderKey? {
    let key = try examine(checked.token, directory: directory, nowSeconds: nowSeconds)
    return key.publicKey == checked.publicKey ? key : nil
  }

  /// The decision table for a token with a valid signature, from top to bottom.
  private func examine(
    _ token: VerifiedToken, directory: Directory, nowSeconds: Int64
  ) throws(Refusal) -> ProviderKey {
    // InvalidProviderToken: unknown kid, kid of another team than iss, or revoked key.
    let key = try directory.verificationKey(token.keyID, issuer: token.issuer)
    // ExpiredProviderToken, or InvalidProviderToken for an issue time in the future.
    if let explanation = token.ageExplanation(nowSeconds: nowSeconds) {
      throw Refusal(explanation)
    }
    // Before the device token is checked: a made-up one gets this answer at the wrong listener too.
    guard key.environments.contains(environment) else {
      throw Refusal(.keyEnvironment(key: key.id, listener: environment))
    }
    if var first = firstKey {
      // A related key may be declared after the first push, so that a key can be rotated out.
      first.relatedKey = directory.key(first.id)?.relatedKey ?? first.relatedKey
      if let explanation = Self.relation(of: key, to: first) { throw Refusal(explanation) }
    }
    // TooManyProviderTokenUpdates.
    if currentGrant != nil, !token.isSameIssue(as: current.token) {
      let wait = saturatingDifference(
        changedSeconds + Limits.providerTokenRefreshSeconds, nowSeconds)
      if wait > 0 { throw Refusal(.tokenChangedTooSoon(secondsLeft: wait)) }
    }
    return key
  }

  /// Nil if pushes with both keys may share a connection.
  ///
  /// UnrelatedKeyIdInToken: the key of the token is not related to that of the first push on this connection.
  private static func relation(of key: ProviderKey, to first: ProviderKey) -> Explanation? {
    guard key.id != first.id || key.team != first.team else { return nil }
    guard key.team == first.team else { return .otherTeam(first: first.team, now: key.team) }
    guard key.isTeamScoped == first.isTeamScoped else {
      return .otherKeyKind(first: first.id, now: key.id)
    }
    // Two team-scoped keys cover the same topics, so that a team can rotate them.
    guard !key.isTeamScoped else { return nil }
    guard key.relatedKey == first.id || first.relatedKey == key.id else {
      return .unrelatedKey(first: first.id, now: key.id)
    }
    return nil
  }

  /// When a token that is trusted now counts as changed: when it was issued, but not before the previous change
  /// allowed another.
  ///
  /// The limit of one change every 20 minutes binds the provider's own clock. Counting from the request would reject a
  /// provider that keeps to it: a token issued 19 minutes ago may be the first on a new connection, and its successor
  /// follows a minute later. By this count changes remain 20 minutes apart, and never in the future.
  private func clockAfter(_ token: VerifiedToken, nowSeconds: Int64) -> Int64 {
    let issued = min(token.issuedAtSeconds, nowSeconds)
    guard currentGrant != nil else { return issued }
    return min(max(issued, changedSeconds + Limits.providerTokenRefreshSeconds), nowSeconds)
  }
}
