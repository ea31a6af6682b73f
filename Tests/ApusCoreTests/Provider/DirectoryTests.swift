import ApusRandom
import ApusCore
import ApusModel
import ApusWire
import Testing

struct ShortIDTests {
  @Test(
    "An id is ten letters and digits, and keeps its case",
    arguments: ["ABCDEFGHIJ", "0123456789", "aZ09zzzzz9"])
  func good(_ text: String) {
    #expect(ShortID(text)?.text == text)
  }

  @Test(
    "Any other text is not an id",
    arguments: [
      "", "ABCDEFGHI", "ABCDEFGHIJK", "ABCDE.GHIJ", "ABCDEFGHI\u{e9}", "ABCDEFGHI ", "@BCDEFGHIJ",
      "[BCDEFGHIJ",
    ])
  func bad(_ text: String) {
    #expect(ShortID(text) == nil)
  }

  @Test("Ids that differ in one character are different")
  func differ() {
    let text = Array("ABCDEFGHIJ")
    for index in text.indices {
      var other = text
      other[index] = "z"
      #expect(ShortID(String(text)) != ShortID(String(other)))
    }
  }
}

struct DirectoryTests {
  @Test("Only bundle ids find apps")
  func apps() {
    let directory = World.directory()
    func app(_ text: String) -> AppID? {
      directory.app(bundleID: Array(text.utf8).span)?.id
    }
    #expect(app("com.example.mail") == World.app)
    #expect(app("com.example.chat") == World.secondApp)
    #expect(app("net.foreign.app") == World.foreignApp)
    for text in ["", "com.example.mai", "com.example.mail.", "com.example.maiL", "com.example"] {
      #expect(app(text) == nil)
    }
    #expect(directory.app(World.app)?.team == World.team)
    #expect(directory.app(AppID(99)) == nil)
  }

  @Test("Among thousands of apps each is found, whatever its length")
  func manyApps() throws {
    var builder = DirectoryBuilder()
    builder.teams = [Team(id: World.team)]
    var random = SeededRandom(seed: 42)
    var texts: [[UInt8]: AppID] = [:]
    for number in 1...3000 as ClosedRange<UInt32> {
      let length = Int.random(in: 1...60, using: &random)
      var text = (0..<length).map { _ in UInt8.random(in: 0x61...0x7a, using: &random) }
      text += Array("\(number)".utf8)
      texts[text] = AppID(number)
      builder.apps.append(App(id: AppID(number), bundleID: text, team: World.team))
    }
    let directory = try builder.build(generation: 1, sha1: World.digest)
    for (text, id) in texts {
      #expect(directory.app(bundleID: text.span)?.id == id)
      let longer = text + [0x61]
      #expect(directory.app(bundleID: longer.span)?.id == texts[longer])
    }
  }

  @Test("Each app has a topic for each suffix, which its hash finds")
  func topics() throws {
    let directory = World.directory()
    for app in [World.app, World.secondApp, World.foreignApp] {
      for suffix in TopicSuffix.allCases {
        let key = TopicKey(app: app, suffix: suffix)
        let text = try #require(directory.topicText(key))
        let hash = World.digest(text.span)
        #expect(directory.topic(hash) == key)
        #expect(directory.topicHash(of: key) == hash)
      }
    }
    #expect(directory.topic(World.digest(Array("com.example.none".utf8).span)) == nil)
    #expect(directory.topicHash(of: TopicKey(app: AppID(99))) == nil)
    #expect(directory.topicText(TopicKey(app: AppID(99))) == nil)
  }

  @Test("A registered bundle id that ends in a suffix has precedence")
  func ambiguous() {
    let directory = World.directory {
      $0.apps.append(
        App(id: AppID(8), bundleID: Array("com.example.calls".utf8), team: World.team))
    }
    let text = Array("com.example.calls.voip".utf8)
    let exact = TopicKey(app: World.voipNamedApp)
    #expect(directory.topic(World.digest(text.span)) == exact)
    #expect(directory.topicHash(of: exact) == World.digest(text.span))
    #expect(directory.topicHash(of: TopicKey(app: AppID(8), suffix: .voip)) == nil)
    #expect(directory.topicHash(of: TopicKey(app: AppID(8), suffix: .widgets)) != nil)
  }

  @Test("Revoked certificates are identified by all 32 bytes")
  func revocations() {
    let directory = World.directory { $0.revokedCertificates = [World.fingerprint(1)] }
    #expect(directory.isRevoked(World.fingerprint(1)))
    for index in 0..<32 {
      var bytes = [UInt8](repeating: 1, count: 32)
      bytes[index] = 0
      let other = CertificateFingerprint(bytes.span)
      #expect(other.map { directory.isRevoked($0) } == false)
    }
    let ones: UInt64 = 0x0101_0101_0101_0101
    #expect(directory.isRevoked(CertificateFingerprint(words: (ones, ones, ones, ones))))
    let short = [UInt8](repeating: 1, count: 31)
    let none = CertificateFingerprint(short.span)
    #expect(none == nil)
  }

  @Test("The directory knows the apps that retain more than one notification, and how many")
  func retentions() {
    let directory = World.directory {
      $0.apps.append(
        App(
          id: AppID(9), bundleID: Array("com.example.keep".utf8), team: World.team, retention: 100))
    }
    #expect(directory.retentions == [AppID(9): 100])
  }

  @Test("The directory knows retired devices, with the time in milliseconds")
  func retirements() {
    let directory = World.directory {
      $0.retiredDevices = [RetiredDevice(id: DeviceID(7), sinceSeconds: 1_700_000_000)]
    }
    #expect(directory.retiredMilliseconds(of: DeviceID(7)) == 1_700_000_000_000)
    #expect(directory.retiredMilliseconds(of: DeviceID(8)) == nil)
    #expect(World.directory().retiredMilliseconds(of: DeviceID(7)) == nil)
  }
}

struct DirectoryBuilderTests {
  struct Contradiction: Sendable, CustomTestStringConvertible {
    var faults: [DirectoryFault]
    var change: @Sendable (inout DirectoryBuilder) -> Void

    init(
      _ faults: DirectoryFault..., change: @escaping @Sendable (inout DirectoryBuilder) -> Void
    ) {
      self.faults = faults
      self.change = change
    }

    var testDescription: String { "\(faults)" }
  }

  static let nowhere = World.id("TEAMNOWHER")

  static let contradictions: [Contradiction] = [
    Contradiction(.teamTwice(World.team)) { $0.teams.append(Team(id: World.team)) },
    Contradiction(.appNumberZero(bundleID: Array("a".utf8))) {
      $0.apps.append(App(id: .base, bundleID: Array("a".utf8), team: World.team))
    },
    Contradiction(.appNumberTwice(World.app)) {
      $0.apps.append(App(id: World.app, bundleID: Array("a".utf8), team: World.team))
    },
    Contradiction(.bundleIDTwice(Array("com.example.mail".utf8))) {
      $0.apps.append(
        App(id: AppID(9), bundleID: Array("com.example.mail".utf8), team: World.team))
    },
    Contradiction(.bundleIDSyntax([], longestByteCount: 257)) {
      $0.apps.append(App(id: AppID(9), bundleID: [], team: World.team))
    },
    Contradiction(
      .bundleIDSyntax([UInt8](repeating: 0x61, count: 258), longestByteCount: 257)
    ) {
      $0.apps.append(
        App(id: AppID(9), bundleID: [UInt8](repeating: 0x61, count: 258), team: World.team))
    },
    Contradiction(.appRetention(bundleID: Array("com.example.keep".utf8), count: 0)) {
      $0.apps.append(
        App(
          id: AppID(9), bundleID: Array("com.example.keep".utf8), team: World.team, retention: 0))
    },
    Contradiction(.appRetention(bundleID: Array("com.example.keep".utf8), count: 101)) {
      $0.apps.append(
        App(
          id: AppID(9), bundleID: Array("com.example.keep".utf8), team: World.team, retention: 101))
    },
    Contradiction(.deviceRetiredTwice(DeviceID(7))) {
      $0.retiredDevices = [
        RetiredDevice(id: DeviceID(7), sinceSeconds: 1),
        RetiredDevice(id: DeviceID(8), sinceSeconds: 1),
        RetiredDevice(id: DeviceID(7), sinceSeconds: 2),
      ]
    },
    Contradiction(.appOfUnknownTeam(bundleID: Array("a".utf8), team: nowhere)) {
      $0.apps.append(App(id: AppID(9), bundleID: Array("a".utf8), team: nowhere))
    },
    Contradiction(.keyTwice(World.unrelatedTopicKey)) {
      $0.keys.append(
        ProviderKey(
          id: World.unrelatedTopicKey, team: World.team, environments: .both,
          topics: [World.app], index: 20, publicKey: 20))
    },
    Contradiction(.verifierShared(World.unrelatedTopicKey, World.otherTeamKey, index: 6)) {
      $0.keys[7].index = 6
    },
    Contradiction(.keyOfUnknownTeam(key: World.otherTeamKey, team: nowhere)) {
      $0.keys[7].team = nowhere
    },
    Contradiction(.keyWithoutEnvironment(World.topicKey)) { $0.keys[4].environments = [] },
    Contradiction(.keyWithoutTopics(World.topicKey)) { $0.keys[4].topics = [] },
    Contradiction(.tooManyTopics(key: World.topicKey, count: 401)) { builder in
      let numbers = 100..<UInt32(501)
      builder.apps += numbers.map {
        App(id: AppID($0), bundleID: Array("app\($0)".utf8), team: World.team)
      }
      builder.keys[4].topics = numbers.map { AppID($0) }
    },
    Contradiction(.keyTopicTwice(key: World.topicKey, app: World.app)) {
      $0.keys[4].topics = [World.app, World.app]
    },
    Contradiction(.keyOfUnknownApp(key: World.topicKey, app: AppID(99))) {
      $0.keys[4].topics = [AppID(99)]
    },
    Contradiction(
      .keyOfForeignApp(key: World.topicKey, app: World.foreignApp, owner: World.otherTeam)
    ) { $0.keys[4].topics = [World.foreignApp] },
    Contradiction(.relatedKeyUnknown(key: World.topicKey, related: World.unknownKey)) {
      $0.keys[5].relatedKey = nil
      $0.keys[4].relatedKey = World.unknownKey
    },
    Contradiction(.relatedKeyUnknown(key: World.topicKey, related: World.topicKey)) {
      $0.keys[5].relatedKey = nil
      $0.keys[4].relatedKey = World.topicKey
    },
    Contradiction(.relatedKeyTeamScoped(key: World.unrelatedTopicKey, related: World.teamKey)) {
      $0.keys[6].relatedKey = World.teamKey
    },
    Contradiction(
      .relatedKeyTaken(
        key: World.unrelatedTopicKey, related: World.topicKey, by: World.relatedTopicKey)
    ) { $0.keys[6].relatedKey = World.topicKey },
    Contradiction(
      .relatedKeyTaken(
        key: World.unrelatedTopicKey, related: World.relatedTopicKey, by: World.topicKey)
    ) { $0.keys[6].relatedKey = World.relatedTopicKey },
    Contradiction(.tooManyTeamKeys(team: World.team, environment: .production, count: 3)) {
      $0.keys.append(
        ProviderKey(
          id: World.unknownKey, team: World.team, environments: .production, index: 20,
          publicKey: 20))
    },
    Contradiction(
      .tooManyTopicKeys(team: World.otherTeam, environment: .development, count: 201)
    ) { builder in
      builder.keys += (100..<301).map {
        ProviderKey(
          id: World.id("KEY0000\($0)"), team: World.otherTeam, environments: .development,
          topics: [World.foreignApp], index: $0, publicKey: UInt64($0))
      }
    },
  ]

  @Test("Each contradiction is reported, and no other", arguments: contradictions)
  func contradiction(_ contradiction: Contradiction) {
    var builder = World.records
    contradiction.change(&builder)
    let thrown = #expect(throws: DirectoryFaults.self) {
      try builder.build(generation: 1, sha1: World.digest)
    }
    #expect(thrown?.faults == contradiction.faults)
    #expect(thrown?.description.isEmpty == false)
  }

  @Test("Keys related across teams are reported")
  func relatedAcrossTeams() {
    var builder = World.records
    builder.keys[7].topics = [World.foreignApp]
    builder.keys[6].relatedKey = World.otherTeamKey
    let thrown = #expect(throws: DirectoryFaults.self) {
      try builder.build(generation: 1, sha1: World.digest)
    }
    #expect(
      thrown?.faults == [
        .relatedKeyOfOtherTeam(key: World.unrelatedTopicKey, related: World.otherTeamKey)
      ])
  }

  @Test("All contradictions are reported at once, one per line")
  func several() {
    var builder = World.records
    builder.teams.append(Team(id: World.team))
    builder.keys[4].topics = []
    builder.keys[5].environments = []
    let thrown = #expect(throws: DirectoryFaults.self) {
      try builder.build(generation: 1, sha1: World.digest)
    }
    #expect(thrown?.faults.count == 3)
    #expect(thrown?.description.split(separator: "\n").count == 3)
  }

  @Test("Revoked keys do not count, and 200 keys and 400 topics are not too many")
  func atTheLimits() throws {
    var builder = World.records
    for number in 100..<105 {
      builder.keys.append(
        ProviderKey(
          id: World.id("KEYGONE\(number)"), team: World.team, environments: .both,
          isRevoked: true, index: number,
          publicKey: UInt64(number)))
    }
    builder.apps += (1000..<1400 as Range<UInt32>).map {
      App(id: AppID($0), bundleID: Array("app\($0)".utf8), team: World.otherTeam)
    }
    builder.keys += (300..<500).map {
      ProviderKey(
        id: World.id("KEY0000\($0)"), team: World.otherTeam, environments: .both,
        topics: (1000..<1400 as Range<UInt32>).reversed().map { AppID($0) }, index: $0,
        publicKey: UInt64($0))
    }
    let directory = try builder.build(generation: 7, sha1: World.digest)
    #expect(directory.generation == 7)
    #expect(directory.key(World.id("KEY0000300"))?.topics?.first == AppID(1000))
    #expect(directory.key(World.unknownKey) == nil)
  }
}
