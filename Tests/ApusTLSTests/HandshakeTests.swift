import ApusRandom
import ApusTLS
import Testing

@Suite("TLS handshake and data")
struct HandshakeTests {
  let certificates: TestCertificates

  init() throws { certificates = try TestCertificates.make() }

  @Test(
    "A handshake completes in any chunks",
    arguments: [TLSVersion.v1_2, .v1_3], [Int.max, 1, 7, 1000])
  func completes(version: TLSVersion, chunk: Int) throws {
    let pair = try Pair.connected(
      certificates.clientConfiguration { $0.maximumVersion = version },
      certificates.serverConfiguration(), chunk: chunk)
    for side in [pair.client, pair.server] {
      #expect(side.failure == nil)
      #expect(side.completions == 1)
      #expect(side.connection.isEstablished)
      #expect(side.connection.version == version)
      #expect(!side.connection.isResumed)
      #expect(side.connection.negotiatedProtocol == nil)
    }
    let cipher =
      version == .v1_3 ? "TLS_AES_128_GCM_SHA256" : "ECDHE-ECDSA-AES128-GCM-SHA256"
    #expect(pair.server.connection.cipherName == cipher)
    #expect(pair.server.connection.peerCertificateDER == nil)
    #expect(pair.client.connection.peerCertificateDER != nil)
    #expect(pair.server.connection.requestedServerName == "push.example.com")

    try pair.client.write(pattern(100))
    try pair.server.write(pattern(200))
    pair.exchange()
    #expect(pair.server.received == pattern(100))
    #expect(pair.client.received == pattern(200))
  }

  @Test(
    "Data of every size around a record arrives completely in both directions",
    arguments: [TLSVersion.v1_2, .v1_3], [0, 1, 2, 16383, 16384, 16385, 32768, 70000])
  func sizes(version: TLSVersion, size: Int) throws {
    let pair = try Pair.connected(
      certificates.clientConfiguration { $0.maximumVersion = version },
      certificates.serverConfiguration())
    for (source, target) in [(pair.client, pair.server), (pair.server, pair.client)] {
      try source.write(pattern(size))
      try source.write(pattern(3, salt: 9))
      pair.exchange()
      #expect(target.received == pattern(size) + pattern(3, salt: 9))
      #expect(target.recordSizes.allSatisfy { $0 <= 16384 })
      #expect(target.recordSizes.count == (size + 16383) / 16384 + 1)
      #expect(target.failure == nil)
    }
  }

  @Test("Writes and arrivals of random sizes lose nothing")
  func randomWalk() throws {
    let seed = UInt64.random(in: .min ... .max)
    var random = SeededRandom(seed: seed)
    for version in [TLSVersion.v1_2, .v1_3] {
      let pair = try Pair.connected(
        certificates.clientConfiguration { $0.maximumVersion = version },
        certificates.serverConfiguration())
      var expected: [ObjectIdentifier: [UInt8]] = [:]
      for _ in 0..<300 {
        let forward = Bool.random(using: &random)
        let (source, target) = forward ? (pair.client, pair.server) : (pair.server, pair.client)
        let bytes = pattern(
          Int.random(in: 0...20000, using: &random), salt: Int(random.next() % 97))
        try source.write(bytes)
        expected[ObjectIdentifier(target), default: []] += bytes
        // Part of the bytes in transit; the rest stays for later steps.
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

  @Test("A record changed in transit is rejected with bad_record_mac")
  func tampering() throws {
    let pair = try Pair.connected(
      certificates.clientConfiguration { $0.maximumVersion = .v1_2 },
      certificates.serverConfiguration())
    try pair.client.write(pattern(100))
    var bytes = pair.client.takeSent()
    bytes[40] ^= 1
    pair.server.feed(bytes)
    guard case .protocolError = pair.server.failure else {
      Issue.record("\(String(describing: pair.server.failure))")
      return
    }
    #expect(pair.server.received.isEmpty)
    #expect(!pair.server.connection.isEstablished)
    pair.exchange()
    #expect(pair.client.failure == .alertReceived(20))
    #expect(throws: TLSError.alertReceived(20)) { try pair.client.write([1]) }
  }

  @Test("Keys may be updated in mid-stream")
  func keyUpdate() throws {
    let pair = try Pair.connected(
      certificates.clientConfiguration(), certificates.serverConfiguration(), chunk: 5)
    for round in 1...3 {
      pair.client.updateKeys()
      try pair.client.write(pattern(100))
      let before = pair.client.recordSizes.count
      pair.exchange()
      #expect(pair.client.recordSizes.count == before)
      try pair.server.write(pattern(200))
      pair.exchange()
      #expect(pair.server.received.count == round * 100)
      #expect(pair.client.received.count == round * 200)
      #expect(pair.server.failure == nil && pair.client.failure == nil)
    }
  }

  @Test("A renegotiation is refused and the connection stays usable")
  func renegotiation() throws {
    let pair = try Pair.connected(
      certificates.clientConfiguration { $0.maximumVersion = .v1_2 },
      certificates.serverConfiguration())
    pair.client.renegotiate()
    try pair.client.write(pattern(10))
    let hello = pair.client.takeSent()
    #expect(!hello.isEmpty, "there must be a second ClientHello for this test to mean anything")
    pair.server.feed(hello)
    #expect(pair.server.failure == nil)
    #expect(pair.server.connection.isEstablished)
    // One alert: RFC 5246, section 7.2.2, no_renegotiation. Encrypted: 8 bytes of nonce, 2, 16 of tag.
    #expect(pair.server.sent.prefix(5) == [0x15, 0x03, 0x03, 0x00, 0x1a])
    #expect(pair.server.sent.count == 31)
  }

  @Test("Data is refused until the handshake is complete")
  func tooEarly() throws {
    let pair = try Pair(
      client: TLSContext(client: certificates.clientConfiguration()),
      server: TLSContext(server: certificates.serverConfiguration()))
    #expect(throws: TLSError.notWritable) { try pair.server.write([1]) }
    #expect(throws: TLSError.notWritable) { try pair.client.write([1]) }
    #expect(!pair.server.connection.isEstablished)
  }

  @Test("A connection may continue with the buffers of another worker")
  func handedOver() throws {
    let pair = try Pair.connected(
      certificates.clientConfiguration(), certificates.serverConfiguration())
    let other = TLSBuffers()
    try pair.client.write(pattern(50))
    pair.client.takeSent().withUnsafeBytes { input in
      pair.server.connection.provide(input, buffers: other)
      guard case .plaintext(let bytes) = pair.server.connection.read(buffers: other) else {
        Issue.record("no plaintext")
        return
      }
      #expect(Array(bytes) == pattern(50))
      guard case .needsInput = pair.server.connection.read(buffers: other) else {
        Issue.record("more input expected")
        return
      }
    }
    try pattern(60).withUnsafeBytes { try pair.server.connection.write($0, buffers: other) }
    #expect(pair.server.buffers.outputCount == 0)
    pair.client.feed(Array(other.output))
    #expect(pair.client.received == pattern(60))
  }

  @Test("Data written while a ticket is incomplete is sent once it is complete")
  func writesBetweenFragments() throws {
    let certificates = certificates
    let pair = try Pair(
      client: TLSContext(
        client: certificates.clientConfiguration { $0.identity = certificates.device }),
      server: TLSContext(
        server: certificates.serverConfiguration {
          $0.clientCertificates = .requested(authoritiesPEM: certificates.authority)
        }))
    pair.server.limitRecords(to: 512)
    pair.client.start()
    pair.server.feed(pair.client.takeSent())
    pair.client.feed(pair.server.takeSent())
    #expect(pair.client.completions == 1)
    pair.server.feed(pair.client.takeSent())
    let ticket = pair.server.takeSent()
    #expect(ticket.count > 600, "the ticket must take two records for this test to mean anything")
    for (index, byte) in ticket.enumerated() {
      pair.client.feed([byte])
      try pair.client.write([UInt8(truncatingIfNeeded: index)])
    }
    pair.exchange()
    #expect(pair.client.connection.receivedTicketCount == 1)
    #expect(pair.server.received == ticket.indices.map { UInt8(truncatingIfNeeded: $0) })
  }

  @Test("A peer that never completes its message cannot make writes accumulate")
  func unfinishedMessage() throws {
    let pair = try Pair.withHalfATicket(certificates)
    let block = pattern(64 * 1024)
    for _ in 0..<4 { try pair.client.write(block) }
    #expect(pair.client.sent.isEmpty)
    #expect(throws: TLSError.protocolError("the peer left a handshake message unfinished")) {
      try pair.client.write([1])
    }
    #expect(!pair.client.connection.isEstablished)
  }
}
