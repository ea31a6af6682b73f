import ApusTLS
import Testing

// Bytes from RFC 5246 and RFC 8446, written by hand.

@Suite("TLS bytes on the wire")
struct WireTests {
  let certificates: TestCertificates

  init() throws { certificates = try TestCertificates.make() }

  /// RFC 4346, section 7.4.1.2: ClientHello of TLS 1.1 with TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA and
  /// TLS_RSA_WITH_AES_128_CBC_SHA, no compression; RFC 4492, section 5.1: curve secp256r1, uncompressed points.
  static let hello11: [UInt8] =
    [0x16, 0x03, 0x01, 0x00, 0x3f, 0x01, 0x00, 0x00, 0x3b, 0x03, 0x02]
    + [UInt8](repeating: 0x5a, count: 32)
    + [0x00, 0x00, 0x04, 0xc0, 0x09, 0x00, 0x2f, 0x01, 0x00, 0x00, 0x0e]
    + [0x00, 0x0a, 0x00, 0x04, 0x00, 0x02, 0x00, 0x17, 0x00, 0x0b, 0x00, 0x02, 0x01, 0x00]

  private func server(_ change: (inout TLSServerConfiguration) -> Void = { _ in }) throws -> Side {
    try Side(TLSContext(server: certificates.serverConfiguration(change)), TLSBuffers())
  }

  @Test("TLS 1.1 is refused with protocol_version")
  func oldVersion() throws {
    let side = try server()
    side.feed(Self.hello11)
    #expect(side.failure == .handshakeFailed(reason: "unsupported protocol", alert: 70))
    // A fatal alert of two bytes; the version is the one that the client sent.
    #expect(side.sent == [0x15, 0x03, 0x02, 0x00, 0x02, 0x02, 0x46])
  }

  @Test("TLS 1.1 works if allowed")
  func oldVersionAllowed() throws {
    let side = try server { $0.minimumVersion = .v1_0 }
    side.feed(Self.hello11)
    #expect(side.failure == nil)
    try #require(side.sent.count > 11)
    // Handshake record, ServerHello, version 3.2.
    #expect(side.sent.prefix(3) == [0x16, 0x03, 0x02])
    #expect(side.sent[5] == 0x02)
    #expect(side.sent[9...10] == [0x03, 0x02])
  }

  @Test(
    "Input that is not TLS fails at once",
    arguments: [
      Array("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".utf8),
      Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8),
      [UInt8](repeating: 0, count: 64),
      [UInt8](repeating: 0xff, count: 64),
      // Handshake record above the limit of 2^14 bytes.
      [0x16, 0x03, 0x01, 0xff, 0xff, 0x01, 0x00, 0xff, 0xfb, 0x03, 0x03],
    ])
  func garbage(bytes: [UInt8]) throws {
    let side = try server()
    side.feed(bytes)
    guard case .handshakeFailed = side.failure else {
      Issue.record("\(String(describing: side.failure))")
      return
    }
    #expect(!side.connection.isEstablished)
    // The failure persists, whatever follows.
    side.feed(bytes)
    guard case .handshakeFailed = side.failure else {
      Issue.record("\(String(describing: side.failure))")
      return
    }
    #expect(throws: TLSError.self) { try side.write([1]) }
  }

  @Test("A client that offers only foreign protocols gets no_application_protocol")
  func foreignProtocol() throws {
    for version in [TLSVersion.v1_2, .v1_3] {
      let pair = try Pair(
        client: TLSContext(
          client: certificates.clientConfiguration {
            $0.applicationProtocols = ["http/1.1", "spdy/3"]
            $0.maximumVersion = version
          }),
        server: TLSContext(
          server: certificates.serverConfiguration { $0.applicationProtocols = ["h2", "apus"] }))
      pair.client.start()
      pair.server.feed(pair.client.takeSent())
      #expect(pair.server.failure == .noApplicationProtocol)
      #expect(pair.server.connection.offeredALPN)
      if version == .v1_2 {
        #expect(pair.server.sent == [0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 0x78])
      }
      pair.exchange()
      #expect(pair.client.failure == .noApplicationProtocol)
    }
  }

  @Test("Protocols are chosen in the server's order")
  func protocolOrder() throws {
    let pair = try Pair.connected(
      certificates.clientConfiguration { $0.applicationProtocols = ["b", "foreign", "a"] },
      certificates.serverConfiguration { $0.applicationProtocols = ["none", "a", "b"] })
    #expect(pair.server.connection.negotiatedProtocol == "a")
    #expect(pair.server.connection.protocolIndex == 1)
    #expect(pair.server.connection.offeredALPN)
    #expect(pair.client.connection.negotiatedProtocol == "a")
    #expect(pair.client.connection.protocolIndex == 2)
  }

  @Test("Clients without ALPN are accepted or refused as configured")
  func withoutALPN() throws {
    let welcome = try Pair.connected(
      certificates.clientConfiguration(),
      certificates.serverConfiguration { $0.applicationProtocols = ["h2"] })
    #expect(welcome.server.connection.isEstablished)
    #expect(welcome.server.connection.protocolIndex == nil)
    #expect(!welcome.server.connection.offeredALPN)

    for version in [TLSVersion.v1_2, .v1_3] {
      let refused = try Pair(
        client: TLSContext(
          client: certificates.clientConfiguration { $0.maximumVersion = version }),
        server: TLSContext(
          server: certificates.serverConfiguration {
            $0.applicationProtocols = ["h2"]
            $0.acceptsClientsWithoutALPN = false
          }))
      refused.client.start()
      refused.server.feed(refused.client.takeSent())
      #expect(refused.server.failure == .noApplicationProtocol)
      #expect(refused.server.sent.count == 7)
      #expect(refused.server.sent.prefix(2) == [0x15, 0x03])
      #expect(refused.server.sent.suffix(4) == [0x00, 0x02, 0x02, 0x78])
      refused.exchange()
      #expect(refused.client.failure == .noApplicationProtocol)
    }
  }
}
