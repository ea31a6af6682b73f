import ApusRandom
import Testing

@testable import ApusTLS

// The server becomes dormant and wakes; OpenSSL is the client.

@Suite("TLS of a dormant connection")
struct DormantTLSTests {
  let certificates: TestCertificates

  init() throws { certificates = try TestCertificates.make() }

  private func connected(
    _ suite: RecordSuite = .aes128, version: TLSVersion = .v1_3, forgets: Bool = true
  ) throws -> Pair {
    let client = try TLSContext(
      client: certificates.clientConfiguration {
        $0.identity = certificates.device
        $0.applicationProtocols = ["b", "a"]
        $0.maximumVersion = version
        $0.allowsCompaction = true
      })
    if version == .v1_3 { client.useOnly(suite) }
    let pair = try Pair(
      client: client,
      server: TLSContext(
        server: certificates.serverConfiguration {
          $0.clientCertificates = .required(authoritiesPEM: certificates.authority)
          $0.applicationProtocols = ["none", "a"]
        }))
    pair.server.compacts = true
    pair.client.start()
    pair.exchange()
    if forgets { pair.server.connection.forgetPeerCertificate() }
    return pair
  }

  /// Data in both directions.
  private func talk(_ pair: Pair, _ count: Int) throws {
    for (source, target) in [(pair.client, pair.server), (pair.server, pair.client)] {
      target.received = []
      try source.write(pattern(count, salt: count))
      pair.exchange()
      #expect(target.received == pattern(count, salt: count))
      #expect(target.failure == nil && source.failure == nil)
    }
  }

  @Test("It continues in the middle of a conversation", arguments: RecordSuite.allCases)
  func conversation(suite: RecordSuite) throws {
    let pair = try connected(suite)
    for count in [1, 100, 20_000, 16_384] {
      try talk(pair, count)
      #expect(pair.server.fallDormantAndWake())
    }
    try talk(pair, 10)
    let server = pair.server.connection
    #expect(server.isCompact && server.isEstablished && !server.isResumed)
    #expect(server.cipherName == suite.name && server.version == .v1_3)
    #expect(server.protocolIndex == 1 && server.negotiatedProtocol == "a")
    #expect(server.peerCertificateDER == nil)
  }

  @Test("Keys may be updated before, between and after", arguments: RecordSuite.allCases)
  func keyUpdates(suite: RecordSuite) throws {
    let pair = try connected(suite)
    for asksBack in [false, true] {
      for side in [pair.client, pair.server] {
        try side.newKeys(asksBack: asksBack)
        pair.exchange()
        try talk(pair, 50)
        #expect(pair.server.fallDormantAndWake())
        try talk(pair, 60)
      }
    }
  }

  @Test("It ends like any other connection", arguments: RecordSuite.allCases)
  func ends(suite: RecordSuite) throws {
    let closing = try connected(suite)
    #expect(closing.server.fallDormantAndWake())
    try closing.expectHalfClose()

    let tampered = try connected(suite)
    #expect(tampered.server.fallDormantAndWake())
    try tampered.client.write(pattern(9))
    var record = tampered.client.takeSent()
    record[record.count - 1] ^= 1
    tampered.server.feed(record)
    tampered.exchange()
    #expect(tampered.client.failure == .alertReceived(20))
  }

  @Test("A connection with anything incomplete does not become dormant")
  func halfDone() throws {
    let partial = try connected()
    try partial.client.write(pattern(100))
    let record = partial.client.takeSent()
    for count in [1, 4, 5, 6, record.count - 1] {
      let pair = try connected()
      try pair.client.write(pattern(100))
      let record = pair.client.takeSent()
      pair.server.feed(record.prefix(count))
      #expect(!pair.server.fallDormantAndWake(), "\(count) bytes of a record")
      pair.server.feed(record.dropFirst(count))
      #expect(pair.server.received == pattern(100))
      #expect(pair.server.fallDormantAndWake())
      try talk(pair, 5)
    }

    let owing = try connected()
    try owing.client.newKeys(asksBack: true)
    try owing.client.write(pattern(4))
    owing.exchange()
    #expect(!owing.server.fallDormantAndWake(), "new keys are owed")
    try talk(owing, 3)
    #expect(owing.server.fallDormantAndWake())

    let closed = try connected()
    closed.server.close()
    #expect(!closed.server.fallDormantAndWake(), "close_notify was sent")
    let finished = try connected()
    finished.client.close()
    finished.exchange()
    #expect(!finished.server.fallDormantAndWake(), "close_notify was received")

    let known = try connected(forgets: false)
    #expect(!known.server.fallDormantAndWake(), "a certificate is remembered")
    #expect(try !connected(version: .v1_2).server.fallDormantAndWake(), "OpenSSL goes on")
  }

  @Test("The count of records without data continues")
  func idleRecords() throws {
    let pair = try connected()
    // OpenSSL announces new keys only with its next write.
    #expect(pair.client.connection.compact())
    for _ in 0..<RecordSide.idleRecords {
      #expect(pair.server.failure == nil)
      try pair.client.newKeys(asksBack: false)
      pair.exchange()
      #expect(pair.server.fallDormantAndWake())
    }
    try pair.client.newKeys(asksBack: false)
    pair.exchange()
    #expect(pair.client.failure == .alertReceived(10))
  }

  @Test("Wiped keys decrypt nothing")
  func wiped() throws {
    let pair = try connected()
    pair.server.wakeWiped()
    try pair.client.write(pattern(9))
    pair.exchange()
    #expect(pair.server.received.isEmpty)
    #expect(pair.server.failure != nil)
  }

  @Test("It becomes dormant anywhere in a random conversation", arguments: RecordSuite.allCases)
  func randomWalk(suite: RecordSuite) throws {
    let seed = UInt64.random(in: .min ... .max)
    var random = SeededRandom(seed: seed)
    let pair = try connected(suite)
    var expected: [[UInt8]] = [[], []]
    let sides = [pair.client, pair.server]
    var fallen = 0
    for _ in 0..<200 {
      let from = Int.random(in: 0...1, using: &random)
      let (source, target) = (sides[from], sides[1 - from])
      if Int.random(in: 0..<10, using: &random) == 0 {
        try source.newKeys(asksBack: Bool.random(using: &random))
      }
      let bytes = pattern(
        Int.random(in: 1...300, using: &random), salt: Int(random.next() % 97))
      try source.write(bytes)
      expected[1 - from] += bytes
      let count =
        Bool.random(using: &random)
        ? source.sent.count : Int.random(in: 0...source.sent.count, using: &random)
      target.feed(source.sent.prefix(count))
      source.sent.removeFirst(count)
      if pair.server.fallDormantAndWake() { fallen += 1 }
    }
    pair.exchange()
    for side in 0...1 {
      #expect(sides[side].received == expected[side], "seed \(seed)")
      #expect(sides[side].failure == nil, "seed \(seed)")
    }
    #expect(fallen > 0, "seed \(seed)")
  }

  @Test("Its size fits a row of the table")
  func size() { #expect(MemoryLayout<DormantTLS>.size <= 140) }
}
