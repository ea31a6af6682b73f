import COpenSSL
import CShims
import Testing

@testable import ApusTLS

/// A ticket contains the client's certificate as bytes that OpenSSL need not parse.
@Suite("Certificates in session tickets")
struct TicketCertificateTests {
  let certificates: TestCertificates

  init() throws { certificates = try TestCertificates.make() }

  private func client(_ version: TLSVersion) -> TLSClientConfiguration {
    certificates.clientConfiguration {
      $0.maximumVersion = version
      $0.identity = certificates.device
    }
  }

  private func server(
    _ keys: TicketKeys, isRevoked: TLSServerConfiguration.RevocationCheck? = nil
  ) -> TLSServerConfiguration {
    certificates.serverConfiguration {
      $0.ticketKeys = keys
      $0.isRevoked = isRevoked
      $0.clientCertificates = .required(authoritiesPEM: certificates.authority)
    }
  }

  private func hasX509(_ side: Side) throws -> Bool {
    try SSL_get0_peer_certificate(#require(side.connection.openSSL).ssl) != nil
  }

  @Test(
    "A session that is resumed repeatedly keeps its certificate, which OpenSSL parses once",
    arguments: [TLSVersion.v1_2, .v1_3])
  func chain(version: TLSVersion) throws {
    let configuration = server(TicketKeys())
    var pair = try Pair.connected(client(version), configuration)
    // Kept to the end: a connection that is dropped without close_notify invalidates its session.
    var pairs = [pair]
    #expect(try hasX509(pair.server))
    for _ in 0..<3 {
      pair = try Pair.connected(
        client(version), configuration, session: pair.client.connection.session)
      pairs.append(pair)
      let connection = pair.server.connection
      #expect(connection.isResumed)
      #expect(connection.peerCertificateDER == der(certificates.device))
      #expect(try !hasX509(pair.server))
      // None of the certificates of these tests is valid for more than a century.
      #expect(!connection.peerCertificateEnds(before: 0))
      #expect(connection.peerCertificateEnds(before: 7_258_118_400))
    }
    #expect(pairs.count == 4)
  }

  @Test(
    "A ticket of an earlier version, with the certificate in place, is valid, and checked",
    arguments: [TLSVersion.v1_2, .v1_3])
  func formerTicket(version: TLSVersion) throws {
    let keys = TicketKeys()
    let former = try TLSContext(server: server(keys))
    SSL_CTX_set_session_ticket_cb(former.handle.pointer, nil, nil, nil)
    let first = try Pair(client: TLSContext(client: client(version)), server: former)
    first.client.start()
    first.exchange()
    let session = try #require(first.client.connection.session)

    let second = try Pair.connected(client(version), server(keys), session: session)
    #expect(second.server.connection.isResumed)
    #expect(second.server.connection.peerCertificateDER == der(certificates.device))
    #expect(try hasX509(second.server))
    if version == .v1_3 {
      // The next ticket is of the new kind.
      let third = try Pair.connected(
        client(version), server(keys), session: second.client.connection.session)
      #expect(third.server.connection.isResumed)
      #expect(third.server.connection.peerCertificateDER == der(certificates.device))
      #expect(try !hasX509(third.server))
    }
    let revoked = try Pair.connected(
      client(version), server(keys, isRevoked: { _ in true }), session: session)
    #expect(revoked.server.failure == .certificateRejected("certificate revoked"))
  }

  /// SEQUENCE of version 1, then parts of one byte each with the tags of SSL_SESSION_ASN1.
  private func session(_ parts: [[UInt8]]) -> [UInt8] {
    let content = [[0x02, 0x01, 0x01]] + parts
    let body = Array(content.joined())
    let count = body.count
    return
      (count < 0x80
      ? [0x30, UInt8(count)]
      : count < 0x100
        ? [0x30, 0x81, UInt8(count)]
        : [0x30, 0x82, UInt8(count >> 8), UInt8(count & 0xFF)]) + body
  }

  private func withoutPeer(_ bytes: [UInt8]) -> [UInt8]? {
    var target = [UInt8](repeating: 0xEE, count: bytes.count)
    let count = apus_tls_session_without_peer(bytes, bytes.count, &target)
    return count == 0 ? nil : Array(target[..<count])
  }

  private let time: [UInt8] = [0xA1, 0x03, 0x02, 0x01, 0x05]
  private let facts: [UInt8] = [0xB2, 0x03, 0x04, 0x01, 0x09]

  @Test("Only the certificate is removed, whatever its length", arguments: [1, 0x7B, 0x90, 300])
  func removal(count: Int) {
    let filling = [UInt8](repeating: 0x55, count: count)
    let peer: [UInt8] =
      (count < 0x80
        ? [0xA3, UInt8(count)]
        : count < 0x100
          ? [0xA3, 0x81, UInt8(count)] : [0xA3, 0x82, UInt8(count >> 8), UInt8(count & 0xFF)])
      + filling
    #expect(withoutPeer(session([time, peer, facts])) == session([time, facts]))
    // The rest may itself need a longer length.
    let long: [UInt8] = [0xA4, 0x82, 0x01, 0x2C] + [UInt8](repeating: 1, count: 300)
    #expect(withoutPeer(session([time, peer, long, facts])) == session([time, long, facts]))
  }

  @Test("A session without certificate or replacement, or invalid bytes, are left unchanged")
  func leftAlone() {
    let peer: [UInt8] = [0xA3, 0x02, 0x30, 0x00]
    #expect(withoutPeer(session([time, facts])) == nil)
    #expect(withoutPeer(session([time, peer])) == nil)
    let whole = session([time, peer, facts])
    for count in 0..<whole.count { #expect(withoutPeer(Array(whole[..<count])) == nil) }
    #expect(withoutPeer(whole + [0]) == nil)
    // Lengths that are wrong, or not valid DER.
    #expect(withoutPeer(session([time, [0xA3, 0x7F, 0x00], facts])) == nil)
    #expect(withoutPeer(session([time, [0xA3, 0x80, 0x00], facts])) == nil)
    #expect(withoutPeer(session([time, [0xA3, 0x84, 0, 0, 0, 0], facts])) == nil)
  }
}
