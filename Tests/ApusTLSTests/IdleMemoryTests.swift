import ApusTLS
import CShims
import Testing

@Suite("Memory of idle TLS connections")
struct IdleMemoryTests {
  // In a process of its own: the figure is of the whole heap.
  @Test("An idle connection owns no buffers; one with half a record owns one")
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
        // Each pair brings a TLSBuffers (16 KiB and 32 KiB) and two SSL objects of some 15 KiB. Four record buffers of
        // 16 KiB would double that.
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
}
