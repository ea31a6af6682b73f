import ApusRandom
import Testing

@testable import ApusTLS

// Our own record layer on one side or on both, OpenSSL on the other.

@Suite("TLS after compaction")
struct CompactionTests {
  enum Who: CaseIterable, Sendable {
    case server
    case client
    case both
  }

  let certificates: TestCertificates

  init() throws { certificates = try TestCertificates.make() }

  /// A pair with certificates on both sides, after its handshake and its ticket.
  func connected(
    _ who: Who, _ suite: RecordSuite = .aes128, chunk: Int = .max, session: TLSSession? = nil,
    contexts: (TLSContext, TLSContext)? = nil
  ) throws -> Pair {
    let (client, server) = try contexts ?? makeContexts()
    client.useOnly(suite)
    let pair = try Pair(client: client, server: server, session: session, chunk: chunk)
    pair.server.compacts = who != .client
    pair.client.start()
    pair.exchange()
    if who != .server {
      #expect(pair.client.connection.receivedTicketCount == 1)
      #expect(pair.client.connection.compact())
    }
    #expect(pair.server.connection.isCompact == (who != .client))
    #expect(pair.server.failure == nil && pair.client.failure == nil)
    return pair
  }

  private func makeContexts() throws -> (TLSContext, TLSContext) {
    (
      try TLSContext(
        client: certificates.clientConfiguration {
          $0.identity = certificates.device
          $0.applicationProtocols = ["b", "a"]
          $0.allowsCompaction = true
        }),
      try TLSContext(
        server: certificates.serverConfiguration {
          $0.clientCertificates = .required(authoritiesPEM: certificates.authority)
          $0.applicationProtocols = ["none", "a"]
        })
    )
  }

  /// 0 to 16384 and beyond: each size at a boundary, and steps between.
  static let sizes: [Int] = {
    var sizes = Set(0...40)
    for power in 7...14 { sizes.formUnion((1 << power) - 3...(1 << power) + 3) }
    sizes.formUnion(stride(from: 100, to: 16384, by: 1337))
    sizes.formUnion([16384 * 2 - 1, 16384 * 2, 16384 * 2 + 1, 50_000])
    return sizes.sorted()
  }()

  @Test("Records of every size arrive both ways", arguments: Who.allCases, RecordSuite.allCases)
  func sizes(who: Who, suite: RecordSuite) throws {
    let pair = try connected(who, suite)
    let bytes = pattern(50_000)
    #expect(pair.server.connection.cipherName == suite.name)
    #expect(pair.client.connection.cipherName == suite.name)
    for (source, target) in [(pair.client, pair.server), (pair.server, pair.client)] {
      for size in Self.sizes {
        target.received = []
        target.recordSizes = []
        try source.write(Array(bytes[..<size]))
        pair.exchange()
        #expect(target.received.elementsEqual(bytes[..<size]), "\(size) bytes")
        #expect(target.recordSizes.allSatisfy { (1...16384).contains($0) }, "\(size) bytes")
      }
      #expect(target.failure == nil && source.failure == nil)
    }
  }

  @Test("A stream arrives however it is split in two", arguments: Who.allCases)
  func everySplit(who: Who) throws {
    let pair = try connected(who)
    for (source, target) in [(pair.client, pair.server), (pair.server, pair.client)] {
      for cut in 0...250 {
        target.received = []
        for size in [1, 40, 90] { try source.write(pattern(size, salt: cut)) }
        let stream = source.takeSent()
        #expect(stream.count < 250)
        target.feed(stream.prefix(cut))
        target.feed(stream.dropFirst(cut))
        let expected = [1, 40, 90].flatMap { pattern($0, salt: cut) }
        #expect(target.received == expected, "cut behind \(cut) bytes")
      }
    }
  }

  @Test("Handshake and data may come byte by byte", arguments: [1, 2, 5, 6, 21, 22, 23, 1000])
  func chunks(chunk: Int) throws {
    let pair = try connected(.server, chunk: chunk)
    try pair.client.write(pattern(3000))
    try pair.server.write(pattern(20_000))
    pair.exchange()
    #expect(pair.server.received == pattern(3000))
    #expect(pair.client.received == pattern(20_000))
  }

  @Test("Data that the client sends with its Finished is read by the new layer")
  func earlyWords() throws {
    let (client, server) = try makeContexts()
    for extra in 0...120 {
      let pair = try Pair(client: client, server: server)
      pair.server.compacts = true
      pair.client.start()
      pair.server.feed(pair.client.takeSent())
      pair.client.feed(pair.server.takeSent())
      try pair.client.write(pattern(70))
      let flight = pair.client.takeSent()
      // From one byte more than the Finished to everything.
      pair.server.feed(flight.dropLast(extra))
      pair.server.feed(flight.suffix(extra))
      #expect(pair.server.connection.isCompact)
      #expect(pair.server.received == pattern(70), "\(extra) bytes later")
    }
  }

  @Test("Writes and arrivals of random sizes, with key updates in between, lose nothing")
  func randomWalk() throws {
    let seed = UInt64.random(in: .min ... .max)
    var random = SeededRandom(seed: seed)
    for who in Who.allCases {
      for suite in RecordSuite.allCases {
        let pair = try connected(who, suite)
        var expected: [ObjectIdentifier: [UInt8]] = [:]
        for _ in 0..<60 {
          let forward = Bool.random(using: &random)
          let (source, target) = forward ? (pair.client, pair.server) : (pair.server, pair.client)
          if Int.random(in: 0..<10, using: &random) == 0 {
            try source.newKeys(asksBack: Bool.random(using: &random))
          }
          let limit = Bool.random(using: &random) ? 300 : 20000
          let bytes = pattern(
            Int.random(in: 1...limit, using: &random), salt: Int(random.next() % 97))
          try source.write(bytes)
          expected[ObjectIdentifier(target), default: []] += bytes
          let count = Int.random(in: 0...source.sent.count, using: &random)
          target.feed(source.sent.prefix(count))
          source.sent.removeFirst(count)
        }
        pair.exchange()
        for side in [pair.client, pair.server] {
          #expect(side.received == expected[ObjectIdentifier(side)] ?? [], "seed \(seed)")
          #expect(side.failure == nil, "seed \(seed)")
        }
      }
    }
  }

  @Test("Keys may be updated in mid-stream", arguments: Who.allCases, [true, false])
  func keyUpdate(who: Who, asksBack: Bool) throws {
    let pair = try connected(who, chunk: 5)
    for round in 1...5 {
      for (source, target) in [(pair.client, pair.server), (pair.server, pair.client)] {
        try source.newKeys(asksBack: asksBack)
        try source.write(pattern(100))
        pair.exchange()
        try target.write(pattern(50))
        pair.exchange()
      }
      #expect(pair.server.received.count == round * 150)
      #expect(pair.client.received.count == round * 150)
      #expect(pair.server.failure == nil && pair.client.failure == nil)
    }
  }

  @Test("close_notify ends one direction only", arguments: Who.allCases)
  func halfClose(who: Who) throws {
    try connected(who).expectHalfClose()
  }

  @Test("Each side understands the other's alert", arguments: Who.allCases)
  func tampering(who: Who) throws {
    for fromClient in [true, false] {
      let pair = try connected(who)
      let (source, target) =
        fromClient ? (pair.client, pair.server) : (pair.server, pair.client)
      try source.write(pattern(100))
      var bytes = source.takeSent()
      bytes[40] ^= 1
      target.feed(bytes)
      guard case .protocolError = target.failure else {
        Issue.record("\(String(describing: target.failure))")
        continue
      }
      #expect(target.received.isEmpty && !target.connection.isEstablished)
      pair.exchange()
      #expect(source.failure == .alertReceived(20))
      #expect(throws: TLSError.alertReceived(20)) { try source.write([1]) }
    }
  }

  @Test("The results of the handshake are available until they are dropped")
  func facts() throws {
    let pair = try connected(.both)
    let server = pair.server.connection
    #expect(server.peerCertificateDER == der(certificates.device))
    #expect(pair.client.connection.peerCertificateDER == der(certificates.server))
    #expect(server.version == .v1_3 && server.isEstablished && !server.isResumed)
    #expect(server.negotiatedProtocol == "a" && server.protocolIndex == 1)
    #expect(pair.client.connection.protocolIndex == 1)
    server.forgetPeerCertificate()
    #expect(server.peerCertificateDER == nil && server.negotiatedProtocol == "a")
  }

  @Test("A ticket that OpenSSL sent before compaction is valid for the next connection")
  func resumption() throws {
    let contexts = try makeContexts()
    for who in Who.allCases {
      let first = try connected(who, contexts: contexts)
      let session = try #require(first.client.connection.session)
      first.client.connection.forgetPeerCertificate()
      #expect(first.client.connection.session === session)
      first.client.close()
      let second = try connected(who, session: session, contexts: contexts)
      #expect(second.server.connection.isResumed && second.client.connection.isResumed)
      #expect(second.server.connection.peerCertificateDER == der(certificates.device))
      try second.client.write(pattern(9))
      second.exchange()
      #expect(second.server.received == pattern(9))
    }
  }
}

extension Side {
  /// Updates keys with the next write at the latest, whichever implementation this side has.
  func newKeys(asksBack: Bool) throws {
    guard let records = connection.records else { return updateKeys(asksBack: asksBack) }
    try records.updateKeys(buffers, asksBack: asksBack)
    sent += Array(buffers.output)
    buffers.removeAllOutput()
  }
}
