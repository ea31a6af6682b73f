import ApusCore
import ApusDirectory
import ApusModel
import ApusTesting
import ApusTrust

/// A data directory, and credentials that an upstream service would have issued.
struct UpstreamBench {
  let directory: TestDirectory
  var data: DataDirectory { directory.data }
  let key: PrivateKey
  let certificate: String
  let certificateKey: String

  static let topic = TestDirectory.topic
  static let keyID = "UPSTREAM01"
  static let team = "APPLETEAM1"

  init() throws {
    directory = try TestDirectory()
    key = try .generateP256()
    let certified = try PrivateKey.generateP256()
    certificate = try directory.foreignAuthority.issueProvider(
      ProviderCertificateRequest(
        bundleID: Self.topic, teamID: Self.team, environments: .both, topics: nil,
        publicKey: certified.publicKey, validity: Validity(now: TestDirectory.nowSeconds, days: 1))
    ).pem
    certificateKey = certified.pkcs8PEM
  }

  func path(_ suffix: String) -> String { "\(data.path)/upstreams/\(Self.topic)\(suffix)" }

  func write(_ text: String, _ suffix: String) throws {
    try Files.makeDirectory("\(data.path)/upstreams")
    try Files.write(text, to: path(suffix), isPrivate: true)
  }

  /// The names in the folder without the bundle id, sorted.
  func files() throws -> [String] {
    try Files.names(in: "\(data.path)/upstreams").map { String($0.dropFirst(Self.topic.count)) }
      .sorted()
  }

  /// Writes values of the app by hand.
  func set(_ values: [(String, String)]) throws {
    var records = try data.records()
    for index in records.sections.indices where records.sections[index].name == Self.topic {
      records.sections[index].values.removeAll { $0.key.hasPrefix("upstream") }
      records.sections[index].values += values.map { (key: $0.0, value: $0.1) }
    }
    try data.save(records)
  }

  static let keyValues = [
    ("upstream", "apple"), ("upstream-key-id", keyID), ("upstream-team", team),
  ]

  func upstream() throws -> Upstream? {
    try data.trust(generation: 1, allowsES512: false).upstreams[AppID(1)]
  }

  /// Why the directory cannot be read.
  func problem() throws -> String {
    do {
      _ = try data.trust(generation: 1, allowsES512: false)
      return ""
    } catch let problem as DirectoryProblem { return problem.description }
  }

  /// The change to a key upstream.
  func keyChange() -> UpstreamChange {
    var change = UpstreamChange()
    change.service = .apple
    change.keyPEM = key.pkcs8PEM
    change.keyID = ShortID(Self.keyID)
    change.team = ShortID(Self.team)
    return change
  }

  func certificateChange() -> UpstreamChange {
    var change = UpstreamChange()
    change.service = .appleSandbox
    change.certificatePEM = certificate
    change.certificateKeyPEM = certificateKey
    return change
  }

  /// The app's values that begin with `upstream`, as lines of the file in their order.
  func lines() throws -> [String] {
    try Files.readText(data.directoryFile).split(separator: "\n").map(String.init)
      .filter { $0.hasPrefix("upstream") }
  }
}
