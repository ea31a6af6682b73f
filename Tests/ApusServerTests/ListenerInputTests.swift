import ApusLoop
import ApusModel
import ApusServer
import ApusTLS
import ApusTesting
import Testing

@Suite("Unexpected input at a listener")
struct ListenerInputTests {
  let service: TestService

  init() throws { service = try Shared.service }

  static let listeners: [(ListenerKind, Environment)] = [
    (.provider, .production), (.provider, .development), (.courier, .production),
    (.courier, .development), (.gateway, .production), (.gateway, .development),
    (.feedback, .production), (.feedback, .development),
  ]

  @Test("Providers without ALPN are served; one that offers h2 gets it")
  func alpn() throws {
    let identity = try service.directory.providerIdentity()
    for protocols in [[], ["h2"], ["http/1.1", "h2"]] {
      let client = RawHTTP2Client(
        try service.tls(.provider, protocols: protocols, identity: identity))
      #expect(client.tls.negotiatedProtocol == (protocols.isEmpty ? nil : "h2"))
      try client.begin()
      let headers = try service.pushHeaders(to: Shared.absentToken, authorization: nil)
      #expect(try client.exchange(headers, body: TestService.payload).status == 200)
    }
  }

  /// The alert that ended a handshake, or its other end.
  private func refusal(
    _ kind: ListenerKind, _ protocols: [String],
    _ change: (inout TLSClientConfiguration) -> Void = { _ in }
  ) throws -> RawEnd? {
    do {
      _ = try service.tls(kind, protocols: protocols, change: change)
      return nil
    } catch RawFault.ended(let end, _) {
      return end
    }
  }

  @Test("A foreign application protocol is refused with no_application_protocol")
  func foreignALPN() throws {
    try withBystanders(service) {
      for protocols in [["http/1.1"], ["h3"], ["apns-security-v3"]] {
        let end = try refusal(.provider, protocols)
        #expect(end == .failed(.noApplicationProtocol), "\(protocols)")
      }
      for protocols in [["h2"], ["apns-pack-v1"], []] {
        let end = try refusal(.courier, protocols)
        #expect(end == .failed(.noApplicationProtocol), "\(protocols)")
      }
    }
  }

  @Test("TLS before 1.2 is refused with protocol_version", arguments: [TLSVersion.v1_0, .v1_1])
  func oldTLS(version: TLSVersion) throws {
    try withBystanders(service) {
      for (kind, protocols) in [
        (ListenerKind.provider, ["h2"]), (.courier, ["apns-security-v3"]),
      ] {
        let end = try refusal(kind, protocols) {
          ($0.minimumVersion, $0.maximumVersion) = (version, version)
        }
        // RFC 8446, section 6.2.
        #expect(end == .failed(.alertReceived(70)))
      }
    }
  }

  @Test("TLS 1.2 and 1.3 are both supported", arguments: [TLSVersion.v1_2, .v1_3])
  func versions(version: TLSVersion) throws {
    let tls = try service.tls(.provider, protocols: ["h2"]) {
      ($0.minimumVersion, $0.maximumVersion) = (version, version)
    }
    #expect(tls.version == version)
    let client = RawHTTP2Client(tls)
    try client.begin()
    let headers = try service.pushHeaders(
      to: Shared.absentToken, authorization: service.authorization())
    #expect(try client.exchange(headers, body: TestService.payload).status == 200)
  }

  /// Expects only a TLS alert, and then the end.
  private func expectCut(_ client: RawTCPClient) throws {
    let (bytes, _) = try client.receiveAll()
    #expect(bytes.isEmpty || (bytes.first == 21 && bytes.count == 7), "\(bytes)")
  }

  @Test("Bytes that are not TLS end the connection, on every listener", arguments: 0..<8)
  func garbage(listener: Int) throws {
    let (kind, environment) = Self.listeners[listener]
    var generator = SystemRandomNumberGenerator()
    let noise = (0..<8).map { _ in
      (0..<4096).map { _ in UInt8.random(in: 0...255, using: &generator) }
    }
    let texts = [
      "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
      "SSH-2.0-OpenSSH_9.0\r\n", "\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}",
    ].map { Array($0.utf8) }
    try withBystanders(service, environment) {
      for bytes in texts + noise {
        let client = try RawTCPClient(service.address(kind, environment))
        try client.send(bytes)
        // Random bytes may look like the start of a record; the service then waits for more or the end.
        client.shutdownWrite()
        try expectCut(client)
      }
    }
  }

  @Test("A handshake cut off anywhere, or reset, does not affect others", arguments: 0..<8)
  func cutHandshake(listener: Int) throws {
    let (kind, environment) = Self.listeners[listener]
    // The start of a ClientHello: handshake record, TLS 1.0 in the record header, 512 bytes to follow.
    let hello = hex("16 0301 0200 01 0001fc 0303") + [UInt8](repeating: 7, count: 100)
    try withBystanders(service, environment) {
      for count in [0, 1, 5, 6, 9, 11, 40, hello.count] {
        let client = try RawTCPClient(service.address(kind, environment))
        try client.send(Array(hello[..<count]))
        if count.isMultiple(of: 2) {
          client.reset()
        } else {
          client.shutdownWrite()
          try expectCut(client)
        }
      }
    }
  }

  @Test("HTTP/1.1 over TLS ends the connection", arguments: 0..<4)
  func http1(listener: Int) throws {
    let (kind, environment) = Self.listeners[listener]
    try withBystanders(service, environment) {
      let identity =
        kind == .provider ? nil : try service.directory.device().identity
      let client = try service.tls(
        kind, environment, protocols: [kind == .provider ? "h2" : TestService.courierProtocol],
        identity: identity)
      try client.send(Array("POST /3/device/ab HTTP/1.1\r\nHost: localhost\r\n\r\n".utf8))
      let (bytes, end) = try client.receiveAll()
      #expect(end == .closeNotify)
      #expect(!String(decoding: bytes, as: UTF8.self).contains("HTTP/1"))
    }
  }

  @Test("The service is also reachable over IPv6")
  func ipv6() throws {
    let service = try TestService(nil, .init { $0.usesIPv6 = true })
    defer { service.stop() }
    #expect(service.address(.provider).description.hasPrefix("[::1]:"))
    let bystanders = try Bystanders(service)
    try bystanders.expectUndisturbed()
  }

  @Test("A TLS session is resumed, with the certificate of its first handshake")
  func resumption() throws {
    let identity = try service.directory.providerIdentity()
    let headers = try service.pushHeaders(to: Shared.absentToken, authorization: nil)
    let first = try service.provider(identity: identity)
    #expect(try first.exchange(headers, body: TestService.payload).status == 200)
    let session = try #require(first.tls.session)
    let second = RawHTTP2Client(
      try service.tls(.provider, protocols: ["h2"], identity: identity, session: session))
    #expect(second.tls.isResumed)
    try second.begin()
    #expect(try second.exchange(headers, body: TestService.payload).status == 200)
  }
}
