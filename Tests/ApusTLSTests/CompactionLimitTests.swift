import CShims
import Testing

@testable import ApusTLS

@Suite("Connections that stay with OpenSSL")
struct CompactionLimitTests {
  let certificates: TestCertificates

  init() throws { certificates = try TestCertificates.make() }

  private func expectLeftAlone(_ pair: Pair) throws {
    #expect(!pair.server.connection.compact())
    #expect(!pair.server.connection.isCompact)
    pair.exchange()
    let before = pair.server.received.count
    try pair.client.write(pattern(20))
    try pair.server.write(pattern(30))
    pair.exchange()
    #expect(Array(pair.server.received.dropFirst(before)) == pattern(20))
    #expect(Array(pair.client.received.suffix(30)) == pattern(30))
    #expect(pair.server.failure == nil && pair.client.failure == nil)
  }

  @Test("TLS 1.2 stays with OpenSSL")
  func olderVersion() throws {
    try expectLeftAlone(
      .connected(
        certificates.clientConfiguration { $0.maximumVersion = .v1_2 },
        certificates.serverConfiguration()))
  }

  @Test("A connection whose context does not allow compaction stays with OpenSSL")
  func switchedOff() throws {
    try expectLeftAlone(
      .connected(
        certificates.clientConfiguration(),
        certificates.serverConfiguration { $0.allowsCompaction = false }))
  }

  @Test("A handshake in progress continues")
  func handshaking() throws {
    let pair = try Pair(
      client: TLSContext(client: certificates.clientConfiguration()),
      server: TLSContext(server: certificates.serverConfiguration()))
    pair.client.start()
    #expect(!pair.server.connection.compact())
    pair.server.feed(pair.client.takeSent())
    try expectLeftAlone(pair)
  }

  @Test("A partially received record stays with OpenSSL", arguments: [1, 4, 5, 6, 20, 41])
  func partOfRecord(count: Int) throws {
    let pair = try Pair.connected(
      certificates.clientConfiguration(), certificates.serverConfiguration())
    try pair.client.write(pattern(20))
    pair.server.feed(pair.client.sent.prefix(count))
    pair.client.sent.removeFirst(count)
    try expectLeftAlone(pair)
  }

  @Test("The new layer continues the counts of records that OpenSSL read and wrote")
  func later() throws {
    let pair = try Pair.connected(
      certificates.clientConfiguration { $0.allowsCompaction = true },
      certificates.serverConfiguration())
    for count in [1, 20_000, 300] {
      try pair.client.write(pattern(count))
      try pair.server.write(pattern(count))
      pair.exchange()
    }
    #expect(pair.server.connection.compact())
    #expect(pair.client.connection.compact())
    for side in [pair.client, pair.server] { side.received = [] }
    try pair.client.write(pattern(77))
    try pair.server.write(pattern(78))
    pair.exchange()
    #expect(pair.server.received == pattern(77) && pair.client.received == pattern(78))
  }

  @Test("A connection with updated keys stays with OpenSSL", arguments: [true, false])
  func updatedKeys(byServer: Bool) throws {
    let pair = try Pair.connected(
      certificates.clientConfiguration(), certificates.serverConfiguration())
    let source = byServer ? pair.server : pair.client
    source.updateKeys(asksBack: false)
    try source.write(pattern(5))
    pair.exchange()
    try expectLeftAlone(pair)
  }

  @Test("A client with a partial ticket waits for the rest")
  func halfTicket() throws {
    let pair = try Pair.withHalfATicket(certificates) { $0.allowsCompaction = true }
    #expect(!pair.client.connection.compact())
    pair.exchange()
    #expect(pair.client.connection.receivedTicketCount == 1)
  }

  @Test("A connection that was closed or has failed is left unchanged")
  func ended() throws {
    let closed = try Pair.connected(
      certificates.clientConfiguration(), certificates.serverConfiguration())
    closed.server.close()
    #expect(!closed.server.connection.compact())
    let failed = try Pair.connected(
      certificates.clientConfiguration(), certificates.serverConfiguration())
    failed.server.feed([23, 3, 3, 0, 0])
    #expect(failed.server.failure != nil)
    #expect(!failed.server.connection.compact())
  }

  @Test(
    "A connection without OpenSSL takes less than 400 bytes",
    .enabled(if: apus_heap_bytes_in_use() > 0))
  func memory() async {
    await #expect(processExitsWith: .success) {
      let certificates = try TestCertificates.make()
      let client = try TLSContext(
        client: certificates.clientConfiguration { $0.identity = certificates.device })
      let server = try TLSContext(
        server: certificates.serverConfiguration {
          $0.clientCertificates = .required(authoritiesPEM: certificates.authority)
        })
      let buffers = TLSBuffers()
      var quiet: [TLSConnection] = []
      quiet.reserveCapacity(100)
      func add() throws {
        let peer = try Side(client, buffers)
        let side = try Side(server, buffers)
        side.compacts = true
        peer.start()
        side.feed(peer.takeSent())
        peer.feed(side.takeSent())
        side.feed(peer.takeSent())
        peer.feed(side.takeSent())
        try peer.write(pattern(300))
        side.feed(peer.takeSent())
        try side.write(pattern(300))
        try #require(side.received.count == 300 && side.connection.isCompact)
        side.connection.forgetPeerCertificate()
        quiet.append(side.connection)
      }
      for _ in 0..<100 { try add() }
      // Measured by what is freed: handshakes leave memory that the allocator keeps.
      let before = Int(apus_heap_bytes_in_use())
      quiet.removeLast(50)
      let each = (before - Int(apus_heap_bytes_in_use())) / 50
      try #require((200..<400).contains(each), "\(each) bytes a connection")
    }
  }
}
