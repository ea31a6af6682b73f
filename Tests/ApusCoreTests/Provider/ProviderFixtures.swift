import ApusCore
import ApusModel
import ApusWire
import Testing

/// A small set of teams, keys and apps, and requests that are valid until a test changes them.
enum World {
  static let now: Int64 = 1_750_000_000

  static let team = id("TEAM000001")
  static let otherTeam = id("TEAM000002")

  static let teamKey = id("KEYTEAM001")
  static let secondTeamKey = id("KEYTEAM002")
  static let developmentKey = id("KEYDEV0001")
  static let revokedKey = id("KEYREVOKED")
  static let topicKey = id("KEYTOPIC01")
  static let relatedTopicKey = id("KEYTOPIC02")
  static let unrelatedTopicKey = id("KEYTOPIC03")
  static let otherTeamKey = id("KEYOTHER01")
  static let unknownKey = id("KEYUNKNOWN")

  static let app = AppID(1)
  static let secondApp = AppID(2)
  static let foreignApp = AppID(3)
  /// Its bundle id is what would be the VoIP topic of `app`'s neighbour `com.example.calls`, which is not registered.
  static let voipNamedApp = AppID(4)

  static func id(_ text: String) -> ShortID {
    guard let id = ShortID(text) else { fatalError("\(text) is not a short id") }
    return id
  }

  static var records: DirectoryBuilder {
    var builder = DirectoryBuilder()
    builder.authorities = [authority, otherAuthority]
    builder.teams = [Team(id: team, name: "One"), Team(id: otherTeam, name: "Two")]
    builder.apps = [
      App(id: app, bundleID: Array("com.example.mail".utf8), team: team),
      App(id: secondApp, bundleID: Array("com.example.chat".utf8), team: team),
      App(id: foreignApp, bundleID: Array("net.foreign.app".utf8), team: otherTeam),
      App(id: voipNamedApp, bundleID: Array("com.example.calls.voip".utf8), team: team),
    ]
    builder.keys = [
      ProviderKey(id: teamKey, team: team, environments: .both, index: 0, publicKey: 0),
      ProviderKey(id: secondTeamKey, team: team, environments: .production, index: 1, publicKey: 1),
      ProviderKey(
        id: developmentKey, team: team, environments: .development, index: 2, publicKey: 2),
      ProviderKey(
        id: revokedKey, team: team, environments: .both, isRevoked: true, index: 3, publicKey: 3),
      ProviderKey(
        id: topicKey, team: team, environments: .both, topics: [app], index: 4, publicKey: 4),
      ProviderKey(
        id: relatedTopicKey, team: team, environments: .both, topics: [secondApp, app],
        relatedKey: topicKey, index: 5, publicKey: 5),
      ProviderKey(
        id: unrelatedTopicKey, team: team, environments: .both, topics: [app], index: 6,
        publicKey: 6),
      ProviderKey(id: otherTeamKey, team: otherTeam, environments: .both, index: 7, publicKey: 7),
    ]
    return builder
  }

  static func directory(
    generation: UInt64 = 1, _ change: (inout DirectoryBuilder) -> Void = { _ in }
  ) -> Directory {
    var builder = records
    change(&builder)
    do {
      return try builder.build(generation: generation, sha1: digest)
    } catch {
      fatalError("\(error)")
    }
  }

  /// Replaces SHA-1, which is the driver's: 20 bytes that differ if the text differs.
  static func digest(_ text: Span<UInt8>) -> TopicHash {
    var bytes = [UInt8](repeating: 0, count: 20)
    var state: UInt64 = 0xcbf2_9ce4_8422_2325
    for index in text.indices { state = (state ^ UInt64(text[index])) &* 0x100_0000_01b3 }
    for index in 0..<20 {
      state = state &* 6_364_136_223_846_793_005 &+ 1
      bytes[index] = UInt8(truncatingIfNeeded: state >> 56)
    }
    guard let hash = TopicHash(bytes.span) else { fatalError("20 bytes are a hash") }
    return hash
  }

  static let authority: UInt64 = 11
  static let otherAuthority: UInt64 = 12
  /// The last second in which ``certificate(_:listed:several:environments:team:)`` is valid.
  static let certificateEnd = now + 86_400

  static let token = DeviceToken(words: (0x0123_4567_89ab_cdef, 2, 3, 4))

  static func claims(
    _ app: AppID = app, _ suffix: TopicSuffix = .none, _ environment: Environment = .production
  ) -> TokenClaims {
    TokenClaims(
      device: DeviceID(7), topic: TopicKey(app: app, suffix: suffix), environment: environment,
      generation: 1)
  }

  static func fingerprint(_ byte: UInt8) -> CertificateFingerprint {
    let bytes = [UInt8](repeating: byte, count: 32)
    guard let value = CertificateFingerprint(bytes.span) else { fatalError("32 bytes") }
    return value
  }

  static func certificate(
    _ topic: String = "com.example.mail", listed: [String] = [], several: Bool = false,
    environments: EnvironmentSet = .both, team: ShortID = team
  ) -> CertificateCredential {
    CertificateCredential(
      defaultTopic: Array(topic.utf8), listedTopics: listed.map { Array($0.utf8) },
      listsSeveralTopics: several, environments: environments, team: team,
      fingerprint: fingerprint(1), place: fingerprint(101), authorities: [authority],
      notAfterSeconds: certificateEnd)
  }
}

/// A request as a list of fields, for tests to change.
struct Request: Sendable {
  var fields: [(name: HeaderName, value: [UInt8])] = [
    (.method, Array("POST".utf8)),
    (.scheme, Array("https".utf8)),
    (.path, Array("/3/device/\(World.token.hex)".utf8)),
    (.authority, Array("api.push.apple.com".utf8)),
    (.authorization, Array("bearer aaa.bbb.ccc".utf8)),
    (.apnsTopic, Array("com.example.mail".utf8)),
    (.apnsPushType, Array("alert".utf8)),
  ]
  var body = Array(#"{"aps":{"alert":"hello"}}"#.utf8)
  var headerListTooLarge = false
  var claims: TokenClaims? = World.claims()
  /// What the driver reads from the authorization field; nil if it is invalid.
  var provider: VerifiedToken? = VerifiedToken(
    keyID: World.teamKey, issuer: World.team, issuedAtSeconds: World.now)

  mutating func set(_ name: HeaderName, _ value: String) { set(name, Array(value.utf8)) }

  mutating func set(_ name: HeaderName, _ value: [UInt8]) {
    remove(name)
    fields.append((name, value))
  }

  mutating func remove(_ name: HeaderName) { fields.removeAll { $0.name == name } }

  /// Adds a second field of the name, or the first if there is none.
  mutating func double(_ name: HeaderName) {
    if !fields.contains(where: { $0.name == name }) { fields.append((name, Array("1".utf8))) }
    fields.append((name, Array("1".utf8)))
  }

  mutating func sign(_ key: ShortID, _ team: ShortID = World.team, age: Int64 = 0) {
    provider = VerifiedToken(keyID: key, issuer: team, issuedAtSeconds: World.now - age)
  }

  /// Makes the body a valid payload of exactly that many bytes.
  mutating func pad(toByteCount count: Int) {
    let head = Array(#"{"aps":{"alert":""#.utf8)
    let tail = Array(#""}}"#.utf8)
    body = head + [UInt8](repeating: 0x61, count: count - head.count - tail.count) + tail
  }

  func requestFields() -> RequestFields {
    var result = RequestFields()
    for field in fields where !result.add(field.name, value: field.value.span) {
      fatalError("no room for \(field.name)")
    }
    return result
  }
}

/// The decision on a request's credential.
enum Authentication: Equatable {
  case trusted(Grant)
  case refused(Refusal)
}

/// Drives admission through its steps as the server does.
struct Driver: ~Copyable {
  var connection: ProviderConnection
  var directory: Directory
  var now = World.now
  /// How often a signature had to be verified.
  var verifications = 0

  init(
    environment: Environment = .production, certificate: CertificateCredential? = nil,
    directory: Directory = World.directory()
  ) throws(Refusal) {
    self.directory = directory
    if let certificate {
      connection = try ProviderConnection(
        environment: environment, certificate: certificate, directory: directory)
    } else {
      connection = ProviderConnection(environment: environment)
    }
  }

  var isTrusted: Bool { connection.isTrusted }

  mutating func reexamine() -> Refusal? {
    connection.reexamine(directory: directory, nowSeconds: now)
  }

  mutating func authenticate(
    _ fields: borrowing RequestFields, _ provider: VerifiedToken?
  ) -> Authentication {
    let directory = directory
    var count = 0
    defer { verifications += count }
    do throws(Refusal) {
      return .trusted(
        try connection.authenticate(fields, directory: directory, nowSeconds: now) {
          _ throws(Refusal) in
          count += 1
          guard let provider else { throw Refusal(.token(.badSignature)) }
          _ = try directory.verificationKey(provider.keyID, issuer: provider.issuer)
          return provider
        })
    } catch {
      return .refused(error)
    }
  }

  mutating func send(_ request: Request) throws(Refusal) -> Notification {
    let fields = request.requestFields()
    try Admission.examineHead(fields, headerListTooLarge: request.headerListTooLarge)
    let grant: Grant
    switch authenticate(fields, request.provider) {
    case .trusted(let trusted): grant = trusted
    case .refused(let refusal): throw refusal
    }
    let head = try Admission.examine(
      fields, connection: connection,
      directory: directory, bodyByteCount: request.body.count, body: request.body.span)
    let claims = try Admission.admit(
      head, claims: request.claims, grant: grant, connection: connection, directory: directory)
    let notification = Notification()
    Admission.fill(
      notification, from: head, claims: claims, interface: .http2,
      collapseID: fields.value(.apnsCollapseID), payload: request.body.span,
      nowMilliseconds: now * 1000)
    return notification
  }

  /// The reason of a rejection; nil for an accepted request.
  mutating func reason(_ request: Request) -> Reason? {
    do throws(Refusal) {
      _ = try send(request)
      return nil
    } catch {
      return error.reason
    }
  }
}

/// A named way to make a request invalid.
struct Spoiled: Sendable, CustomTestStringConvertible {
  var name: String
  var reason: Reason?
  var spoil: @Sendable (inout Request) -> Void

  init(_ name: String, _ reason: Reason?, _ spoil: @escaping @Sendable (inout Request) -> Void) {
    self.name = name
    self.reason = reason
    self.spoil = spoil
  }

  var testDescription: String { name }
}
