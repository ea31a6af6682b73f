import Testing

@testable import ApusTLS

// Checks that apply to a connection with OpenSSL and without it.

extension Pair {
  /// close_notify ends one direction, once, and the other continues.
  func expectHalfClose() throws {
    try client.write(pattern(30))
    client.close()
    let closing = client.sent
    client.close()
    #expect(client.sent == closing, "close_notify is sent once")
    #expect(throws: TLSError.notWritable) { try client.write([1]) }
    exchange()
    #expect(server.received == pattern(30))
    #expect(server.isClosedByPeer)
    #expect(server.failure == nil)
    guard case .closedByPeer = server.connection.endOfInput() else {
      Issue.record("a closed connection must end well")
      return
    }
    try server.write(pattern(40))
    server.close()
    exchange()
    #expect(client.received == pattern(40))
    #expect(client.isClosedByPeer)
  }

  /// The client has the first part of a session ticket that is split over records; the rest waits to be sent.
  static func withHalfATicket(
    _ certificates: TestCertificates,
    _ change: (inout TLSClientConfiguration) -> Void = { _ in }
  ) throws -> Pair {
    let pair = try Pair(
      client: TLSContext(
        client: certificates.clientConfiguration {
          $0.identity = certificates.device
          change(&$0)
        }),
      server: TLSContext(
        server: certificates.serverConfiguration {
          $0.clientCertificates = .requested(authoritiesPEM: certificates.authority)
        }))
    pair.server.limitRecords(to: 512)
    pair.client.start()
    pair.server.feed(pair.client.takeSent())
    pair.client.feed(pair.server.takeSent())
    pair.server.feed(pair.client.takeSent())
    pair.client.feed(pair.server.sent.prefix(560))
    pair.server.sent.removeFirst(560)
    return pair
  }
}
