import ApusRandom
import ApusCore
import ApusDirectory
import ApusModel
import ApusServer
import ApusTLS
import ApusTrust
import ApusWire
import Synchronization

/// Keys and certificates of a simulation. Created once for a process: a run shows only their indexes.
final class SimulationCredentials: Sendable {
  static let deviceLimit = 16
  /// The last one is registered while the service runs.
  static let appCount = 4
  static let lateApp = 3
  /// Apps that may have channels: the first ones.
  static let broadcastApps = 2
  /// Apps with an upstream, after the others.
  static let relayedAppCount = 2
  static let nodeLimit = 5
  /// How many waiting notifications each app retains for a device.
  static let retentions = [1, 3, 1, 5]
  static let keyCount = 2
  /// Certificates of each app.
  static let editionCount = 3
  static let teamID = shortID("SIMTEAM001")
  static let otherTeamID = shortID("SIMTEAM002")

  private let sealingKeys: TokenSealingKeys
  private let serviceAuthorities: Authorities
  private let deviceAuthorities: Authorities
  private let verifiers: [ProviderKeyVerifier]
  private let fingerprints: [CertificateFingerprint]
  /// All client certificates: first those of the devices, then those of each app's providers, then one for each app
  /// with an upstream, then those of the nodes.
  let certificates: [[UInt8]]
  /// Keys of the team that owns the apps.
  let keys: [ProviderKeyPair]
  /// A key of the other team: its tokens are valid, but for other apps.
  let otherKey: ProviderKeyPair

  init() throws {
    let now = SimulatedClock.epochMilliseconds / 1000
    let validity = Validity(now: now, days: 365)
    let service = try CertificateAuthority.create(commonName: "Service", validity: validity)
    let devices = try CertificateAuthority.create(commonName: "Devices", validity: validity)
    var certificates: [[UInt8]] = []
    for device in 0..<Self.deviceLimit {
      let certificate = try devices.issueDevice(
        deviceID: Self.deviceID(device), name: "device \(device)",
        publicKey: PrivateKey.generateP256().publicKey, validity: validity)
      certificates.append(certificate.der)
    }
    var fingerprints: [CertificateFingerprint] = []
    for place in 0..<Self.appCount * Self.editionCount {
      let app = place / Self.editionCount
      let certificate = try service.issueProvider(
        ProviderCertificateRequest(
          bundleID: Self.topic(app), teamID: Self.teamID.text, environments: .both, topics: nil,
          publicKey: PrivateKey.generateP256().publicKey, validity: validity))
      certificates.append(certificate.der)
      guard let fingerprint = CertificateFingerprint(certificate.fingerprint.bytes.span) else {
        preconditionFailure("a fingerprint of the wrong length")
      }
      fingerprints.append(fingerprint)
    }
    for app in 0..<Self.relayedAppCount {
      let certificate = try service.issueProvider(
        ProviderCertificateRequest(
          bundleID: Self.relayedTopic(app), teamID: Self.teamID.text, environments: .both,
          topics: nil, publicKey: PrivateKey.generateP256().publicKey, validity: validity))
      certificates.append(certificate.der)
    }
    for node in 0..<Self.nodeLimit {
      let certificate = try service.issueNode(
        name: LinkIdentity.serverName(of: Self.node(node)),
        publicKey: PrivateKey.generateP256().publicKey, validity: validity)
      certificates.append(certificate.der)
    }
    self.certificates = certificates
    self.fingerprints = fingerprints
    keys = try (0..<Self.keyCount).map { index in
      ProviderKeyPair(
        id: Self.shortID("SIMKEY000\(index)"), team: Self.teamID, key: try .generateP256())
    }
    otherKey = ProviderKeyPair(
      id: Self.shortID("SIMKEY0009"), team: Self.otherTeamID, key: try .generateP256())
    verifiers = try (keys + [otherKey]).map { try ProviderKeyVerifier(publicKey: $0.key.publicKey) }
    sealingKeys = try TokenSealingKeys([
      TokenSealingKeys.Key(id: 1, bytes: (0..<32).map { UInt8($0) })
    ])
    serviceAuthorities = Authorities([service.certificate])
    deviceAuthorities = Authorities([devices.certificate])
  }

  /// The claims in a device token.
  func claims(of token: DeviceToken) -> TokenClaims? { TokenSealer(sealingKeys).open(token) }

  /// The service's configuration for that directory.
  func trust(_ state: SimulatedDirectory) throws -> Trust {
    Trust(
      directory: try directory(state), verifiers: verifiers, sealingKeys: sealingKeys,
      serviceAuthorities: serviceAuthorities, deviceAuthorities: deviceAuthorities,
      upstreams: Self.upstreams(state))
  }

  /// Nobody connects to them: `SimulatedUpstream` takes the clients' place. Each edition has another port.
  private static func upstreams(_ state: SimulatedDirectory) -> [AppID: Upstream] {
    Dictionary(
      uniqueKeysWithValues: state.upstreamEditions.enumerated().map { app, edition in
        (
          relayedAppID(app),
          Upstream(
            service: .other(host: "upstream", port: UInt16(1000 + edition)),
            credential: .certificate(pem: "", keyPEM: ""), spools: app == 0)
        )
      })
  }

  private func directory(_ state: SimulatedDirectory) throws -> Directory {
    var builder = DirectoryBuilder()
    builder.teams = [
      Team(id: Self.teamID, name: "Team"), Team(id: Self.otherTeamID, name: "Other"),
    ]
    let known = state.hasLateApp ? Self.appCount : Self.lateApp
    builder.apps = (0..<known).map {
      App(
        id: AppID(UInt32($0 + 1)), bundleID: Array(Self.topic($0).utf8), team: Self.teamID,
        retention: state.retainsOne ? 1 : Self.retentions[$0],
        broadcasts: $0 < Self.broadcastApps)
    }
    builder.apps.append(
      App(
        id: AppID(UInt32(Self.appCount + 1)), bundleID: Array("com.example.other".utf8),
        team: Self.otherTeamID))
    builder.apps += (0..<Self.relayedAppCount).map {
      App(
        id: Self.relayedAppID($0), bundleID: Array(Self.relayedTopic($0).utf8), team: Self.teamID)
    }
    builder.keys = keys.enumerated().map { index, pair in
      ProviderKey(
        id: pair.id, team: Self.teamID, environments: .both,
        isRevoked: index < state.revokedKeys, index: index, publicKey: UInt64(index))
    }
    builder.keys.append(
      ProviderKey(
        id: otherKey.id, team: Self.otherTeamID, environments: .both, index: Self.keyCount,
        publicKey: UInt64(Self.keyCount)))
    builder.authorities = serviceAuthorities.marks
    builder.revokedCertificates = fingerprints.indices.filter {
      $0 % Self.editionCount < state.revokedEditions[$0 / Self.editionCount]
    }.map { fingerprints[$0] }
    return try builder.build(generation: state.generation, sha1: TopicHash.init(of:))
  }

  static func node(_ index: Int) -> NodeName {
    guard let name = NodeName("node\(index)") else { preconditionFailure("not a node's name") }
    return name
  }

  static func nodeCertificate(_ index: Int) -> Int {
    deviceLimit + appCount * editionCount + relayedAppCount + index
  }

  static func topic(_ app: Int) -> String { "com.example.app\(app)" }

  static func relayedTopic(_ app: Int) -> String { "com.example.relayed\(app)" }

  static func relayedAppID(_ app: Int) -> AppID { AppID(UInt32(appCount + 2 + app)) }

  static func isRelayed(_ app: AppID) -> Bool {
    (0..<relayedAppCount).contains { relayedAppID($0) == app }
  }

  static func relayedCertificate(_ app: Int) -> Int {
    deviceLimit + appCount * editionCount + app
  }

  /// The topic of the app's Live Activities, and of its broadcasts.
  static func activityTopic(_ app: Int) -> String { topic(app) + ".push-type.liveactivity" }

  static func activityTopicHash(_ app: Int) -> TopicHash {
    TopicHash(of: Array(activityTopic(app).utf8).span)
  }

  static func topicHash(_ app: Int) -> TopicHash { TopicHash(of: Array(topic(app).utf8).span) }

  /// Distributed over the workers like random ids.
  static func deviceID(_ device: Int) -> DeviceID {
    var random = SeededRandom(seed: UInt64(device))
    return DeviceID(random.next())
  }

  static func providerCertificate(_ app: Int, edition: Int) -> Int {
    deviceLimit + app * editionCount + edition
  }

  private static func shortID(_ text: String) -> ShortID {
    guard let id = ShortID(text) else { preconditionFailure("\(text) does not have ten letters") }
    return id
  }

  // MARK: Provider tokens

  private struct Token {
    var key: ShortID
    var issuedAt: Int64
    var field: [UInt8]
  }

  private let tokens = Mutex<[Token]>([])

  /// The value of a provider token's header field. ECDSA signatures are random, and HPACK's Huffman code makes some
  /// longer than others: signing is repeated until the length is the same as for all tokens of all runs.
  func authorization(_ pair: ProviderKeyPair, issuedAt: Int64) throws -> [UInt8] {
    try tokens.withLock { tokens in
      if let known = tokens.first(where: { $0.key == pair.id && $0.issuedAt == issuedAt }) {
        return known.field
      }
      while true {
        let text = try pair.token(issuedAt: issuedAt)
        let bits = text.utf8.suffix(86).reduce(0) { $0 + Self.huffmanBits($1) }
        guard bits == 550 else { continue }
        let token = Token(key: pair.id, issuedAt: issuedAt, field: Array("bearer \(text)".utf8))
        tokens.append(token)
        return token.field
      }
    }
  }

  /// Code lengths for base64url: RFC 7541, appendix B.
  private static func huffmanBits(_ byte: UInt8) -> Int {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "2"): 5
    case UInt8(ascii: "3")...UInt8(ascii: "9"): 6
    case UInt8(ascii: "X"), UInt8(ascii: "Z"): 8
    case UInt8(ascii: "A"), UInt8(ascii: "-"), UInt8(ascii: "_"): 6
    case UInt8(ascii: "B")...UInt8(ascii: "Y"): 7
    default:
      switch Character(UnicodeScalar(byte)) {
      case "a", "c", "e", "i", "o", "s", "t": 5
      case "b", "d", "f", "g", "h", "l", "m", "n", "p", "r", "u": 6
      default: 7
      }
    }
  }
}
