import ApusCore
import ApusModel
import ApusServer
import ApusTLS
import ApusTrust
import ApusWire
import Synchronization

/// Keys and certificates of a simulation. Made once for a process: nothing of them but their places shows in a run.
final class SimulationCredentials: Sendable {
  static let deviceLimit = 16
  static let appCount = 3
  static let teamID = shortID("SIMTEAM001")
  static let otherTeamID = shortID("SIMTEAM002")

  let trust: Trust
  /// Every certificate that anybody holds: first those of the devices, then a provider's for each app.
  let certificates: [[UInt8]]
  let key: ProviderKeyPair
  /// Of the other team: its tokens are good, for other apps.
  let otherKey: ProviderKeyPair

  init() throws {
    let now = SimulatedHost.epochMilliseconds / 1000
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
    for app in 0..<Self.appCount {
      let certificate = try service.issueProvider(
        ProviderCertificateRequest(
          bundleID: Self.topic(app), teamID: Self.teamID.text, environments: .both, topics: nil,
          publicKey: PrivateKey.generateP256().publicKey, validity: validity))
      certificates.append(certificate.der)
    }
    self.certificates = certificates
    key = ProviderKeyPair(
      id: Self.shortID("SIMKEY0001"), team: Self.teamID, key: try .generateP256())
    otherKey = ProviderKeyPair(
      id: Self.shortID("SIMKEY0002"), team: Self.otherTeamID, key: try .generateP256())
    trust = Trust(
      directory: try Self.directory(key, otherKey),
      verifiers: [
        try ProviderKeyVerifier(publicKey: key.key.publicKey),
        try ProviderKeyVerifier(publicKey: otherKey.key.publicKey),
      ],
      sealingKeys: try TokenSealingKeys([
        TokenSealingKeys.Key(id: 1, bytes: (0..<32).map { UInt8($0) })
      ]),
      deviceAuthorities: [devices.certificate])
  }

  private static func directory(
    _ key: ProviderKeyPair, _ otherKey: ProviderKeyPair
  ) throws -> Directory {
    var builder = DirectoryBuilder()
    builder.teams = [Team(id: teamID, name: "Team"), Team(id: otherTeamID, name: "Other")]
    builder.apps = (0..<appCount).map {
      App(id: AppID(UInt32($0 + 1)), bundleID: Array(topic($0).utf8), team: teamID)
    }
    builder.apps.append(
      App(
        id: AppID(UInt32(appCount + 1)), bundleID: Array("com.example.other".utf8),
        team: otherTeamID))
    builder.keys = [
      ProviderKey(id: key.id, team: teamID, environments: .both, index: 0),
      ProviderKey(id: otherKey.id, team: otherTeamID, environments: .both, index: 1),
    ]
    return try builder.build(generation: 1, sha1: TopicHash.init(of:))
  }

  static func topic(_ app: Int) -> String { "com.example.app\(app)" }

  static func topicHash(_ app: Int) -> TopicHash { TopicHash(of: Array(topic(app).utf8).span) }

  /// Spread over the workers as drawn ids are.
  static func deviceID(_ device: Int) -> DeviceID {
    var random = SeededRandom(seed: UInt64(device))
    return DeviceID(random.next())
  }

  static func providerCertificate(_ app: Int) -> Int { deviceLimit + app }

  private static func shortID(_ text: String) -> ShortID {
    guard let id = ShortID(text) else { preconditionFailure("\(text) has not ten letters") }
    return id
  }

  // MARK: Provider tokens

  private struct Token {
    var key: ShortID
    var issuedAt: Int64
    var field: [UInt8]
  }

  private let tokens = Mutex<[Token]>([])

  /// A provider's token as the field has it. ECDSA signatures are random, and HPACK's Huffman code makes some of them
  /// longer than others: signing is repeated until the length is the one that all tokens of all runs have.
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

  /// RFC 7541, appendix B, for the letters of base64url.
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
