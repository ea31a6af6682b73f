import ApusTLS
import CShims
import Testing

@Suite("Memory of idle TLS connections")
struct IdleMemoryTests {
  @Test(
    "A server connection without input uses no memory of OpenSSL",
    .enabled(if: apus_heap_bytes_in_use() > 0))
  func unbegun() async {
    await #expect(processExitsWith: .success) {
      let certificates = try TestCertificates.make()
      let context = try TLSContext(server: certificates.serverConfiguration())
      var connections = [try TLSConnection(context: context)]
      connections.reserveCapacity(101)
      let before = apus_heap_bytes_in_use()
      for _ in 0..<100 { connections.append(try TLSConnection(context: context)) }
      let each = (Int(apus_heap_bytes_in_use()) - Int(before)) / 100
      try #require(each < 256, "each takes \(each) bytes")
      for connection in connections {
        let facts = (connection.negotiatedProtocol, connection.version, connection.cipherName)
        try #require(facts == (nil, nil, nil))
        try #require(!connection.isEstablished && !connection.compact())
      }
    }
  }

  // In processes of their own: the figure is for the whole heap. A sanitizer's heap has none.
  @Test(
    "An idle connection owns no buffers, and one with a partial record owns one",
    .enabled(if: apus_heap_bytes_in_use() > 0))
  func idle() async {
    await #expect(processExitsWith: .success) {
      let certificates = try TestCertificates.make()
      for version in [TLSVersion.v1_2, .v1_3] {
        let client = try TLSContext(
          client: certificates.clientConfiguration {
            $0.maximumVersion = version
            $0.keepsSessions = false
          })
        let server = try TLSContext(server: certificates.serverConfiguration())
        var pairs: [Pair] = []
        func add() throws {
          let pair = try Pair(client: client, server: server)
          pair.client.start()
          pair.exchange()
          try pair.client.write(pattern(100))
          try pair.server.write(pattern(100))
          pair.exchange()
          pairs.append(pair)
        }
        for _ in 0..<4 { try add() }
        let before = apus_heap_bytes_in_use()
        for _ in 0..<16 { try add() }
        let each = (Int(apus_heap_bytes_in_use()) - Int(before)) / 16
        // Each pair has a TLSBuffers (16 KiB and 32 KiB) and two SSL objects of some 15 KiB. Four record buffers of 16
        // KiB would double that.
        try #require(each < 100 * 1024, "a pair takes \(each) bytes")

        let pair = pairs[0]
        try pair.client.write(pattern(16000))
        let record = pair.client.takeSent()
        pair.server.received.reserveCapacity(20000)
        let idle = apus_heap_bytes_in_use()
        pair.server.feed(record.prefix(8000))
        let half = apus_heap_bytes_in_use()
        try #require(half > idle + 16000, "half a record: \(idle) to \(half)")
        pair.server.feed(record.dropFirst(8000))
        try #require(pair.server.received.count == 16100)
        let after = apus_heap_bytes_in_use()
        try #require(after < idle + 2000, "after the record: \(idle) to \(after)")
      }
    }
  }

  @Test(
    "The memory of contexts and connections is freed",
    .enabled(if: apus_heap_bytes_in_use() > 0))
  func noLeak() async {
    await #expect(processExitsWith: .success) {
      let certificates = try TestCertificates.make()
      let server = certificates.serverConfiguration {
        $0.clientCertificates = .requested(authoritiesPEM: certificates.authority)
        $0.serverNameIdentities = ["named.example.com": certificates.namedServer]
        $0.applicationProtocols = ["h2"]
      }
      let client = certificates.clientConfiguration {
        $0.identity = certificates.device
        $0.applicationProtocols = ["h2"]
        $0.serverName = "named.example.com"
      }
      // The least of several batches: OpenSSL's own tables grow in some of them, a leak in each.
      func grown(_ rounds: Int, _ round: () throws -> Void) rethrows -> Int {
        var least = Int.max
        for _ in 0..<10 {
          let before = apus_heap_bytes_in_use()
          for _ in 0..<rounds { try round() }
          least = min(least, (Int(apus_heap_bytes_in_use()) - Int(before)) / rounds)
        }
        return least
      }

      let (listener, caller) = (try TLSContext(server: server), try TLSContext(client: client))
      let connections = try grown(100) {
        let first = try Pair(client: caller, server: listener)
        first.client.start()
        first.exchange()
        let second = try Pair(
          client: caller, server: listener, session: first.client.connection.session)
        second.client.start()
        // The resumed side, and one that stops half-way.
        second.server.feed(second.client.takeSent())
      }
      // Less than any object that could leak: an SSL_SESSION has some 600 bytes.
      try #require(connections < 500, "\(connections) bytes a connection")

      let contexts = try grown(20) {
        _ = (try TLSContext(server: server), try TLSContext(client: client))
      }
      // An SSL_CTX has more than 10 KiB.
      try #require(contexts < 2000, "\(contexts) bytes a context")
    }
  }
}
