import ApusTLS
import Testing

@Suite("The end of a TLS connection")
struct CloseTests {
  let certificates: TestCertificates

  init() throws { certificates = try TestCertificates.make() }

  private func connected(_ version: TLSVersion) throws -> Pair {
    try Pair.connected(
      certificates.clientConfiguration { $0.maximumVersion = version },
      certificates.serverConfiguration())
  }

  @Test("close_notify ends one direction only", arguments: [TLSVersion.v1_2, .v1_3])
  func halfClose(version: TLSVersion) throws {
    try connected(version).expectHalfClose()
  }

  @Test("Input after close_notify is dropped")
  func afterClose() throws {
    let pair = try connected(.v1_3)
    pair.client.close()
    pair.server.feed(pair.client.takeSent() + [0x17, 0x03, 0x03, 0x00, 0x01, 0x00])
    #expect(pair.server.isClosedByPeer)
    #expect(pair.server.failure == nil)
    // The shared buffers are free for the next connection.
    try pair.server.write(pattern(5))
    pair.exchange()
    #expect(pair.client.received == pattern(5))
  }

  @Test("An end without close_notify is a truncation")
  func truncation() throws {
    let pair = try connected(.v1_3)
    try pair.client.write(pattern(30))
    pair.server.feed(pair.client.takeSent())
    guard case .failed(.truncated) = pair.server.connection.endOfInput() else {
      Issue.record("truncation was not noticed")
      return
    }
    #expect(throws: TLSError.truncated) { try pair.server.write([1]) }

    let halfway = try Pair(
      client: TLSContext(client: certificates.clientConfiguration()),
      server: TLSContext(server: certificates.serverConfiguration()))
    guard case .failed(.truncated) = halfway.server.connection.endOfInput() else {
      Issue.record("truncation was not noticed")
      return
    }
    // Nor does it start after its end.
    #expect(throws: TLSError.truncated) { try halfway.server.write([1]) }
    halfway.client.start()
    halfway.server.feed(halfway.client.takeSent())
    #expect(halfway.server.failure == .truncated)
    #expect(halfway.server.sent.isEmpty)
  }

  @Test("Closing before the handshake is complete sends nothing")
  func earlyClose() throws {
    let pair = try Pair(
      client: TLSContext(client: certificates.clientConfiguration()),
      server: TLSContext(server: certificates.serverConfiguration()))
    pair.server.close()
    #expect(pair.server.sent.isEmpty)
  }
}
