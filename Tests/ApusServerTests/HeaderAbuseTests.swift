import ApusModel
import ApusTesting
import Testing

@Suite("Duplicate, empty, oversized or non-text header fields")
struct HeaderAbuseTests {
  let service: TestService

  init() throws { service = try Shared.service }

  private static let values = [
    "authorization": "bearer x", "apns-id": "a1b2c3d4-e5f6-0718-293a-4b5c6d7e8f90",
    "apns-push-type": "alert", "apns-expiration": "0", "apns-priority": "10",
    "apns-topic": TestDirectory.topic, "apns-collapse-id": "c", "host": "localhost",
  ]

  @Test("A duplicate known field is rejected, whatever its value", arguments: values.keys)
  func doubled(name: String) throws {
    let value = try #require(Self.values[name])
    for second in [value, "\(value)1"] {
      try RequestCase("doubled", 400, "DuplicateHeaders") { headers in
        headers.setting(name, value) + [RawHeader(name, second)]
      }.run(service)
    }
  }

  @Test("A field that APNs ignores may be repeated")
  func ignoredTwice() throws {
    let provider = try service.provider()
    let headers = try service.pushHeaders(
      to: Shared.absentToken, authorization: service.authorization())
    let twice = headers + [RawHeader("user-agent", "a"), RawHeader("user-agent", "b")]
    #expect(try provider.exchange(twice, body: TestService.payload).status == 200)
  }

  @Test(
    "A pseudo field that is repeated, missing or misplaced makes the request malformed",
    arguments: [":method", ":path", ":scheme", ":authority"])
  func pseudoFields(name: String) throws {
    try withBystanders(service) {
      let provider = try service.provider()
      let headers = try service.pushHeaders(
        to: Shared.absentToken, authorization: service.authorization())
      let field = try #require(headers.first { $0.name == name })
      var malformed = [[field] + headers, headers.without(name) + [field]]
      if name != ":authority" { malformed.append(headers.without(name)) }
      for headers in malformed {
        let stream = try provider.request(headers, body: TestService.payload)
        // PROTOCOL_ERROR, as in RFC 9113, section 8.1.1.
        guard case .reset(1) = try provider.outcome(of: stream) else {
          Issue.record("a request with \(headers) was answered")
          continue
        }
      }
      #expect(try provider.exchange(headers, body: TestService.payload).status == 200)
    }
  }

  @Test("Requests without an authority, or with host instead, are served")
  func authority() throws {
    let provider = try service.provider()
    let headers = try service.pushHeaders(
      to: Shared.absentToken, authorization: service.authorization()
    ).without(":authority")
    #expect(try provider.exchange(headers, body: TestService.payload).status == 200)
    let host = headers + [RawHeader("host", "api.push.apple.com")]
    #expect(try provider.exchange(host, body: TestService.payload).status == 200)
  }

  @Test(
    "An empty field is rejected",
    arguments: [
      RequestCase("authorization", 403, "MissingProviderToken", setting: "authorization", ""),
      RequestCase("id", 400, "BadMessageId", setting: "apns-id", ""),
      RequestCase("expiration", 400, "BadExpirationDate", setting: "apns-expiration", ""),
      RequestCase("priority", 400, "BadPriority", setting: "apns-priority", ""),
      RequestCase("push type", 400, "InvalidPushType", setting: "apns-push-type", ""),
      RequestCase("topic", 400, "MissingTopic", setting: "apns-topic", ""),
      RequestCase("method", 405, "MethodNotAllowed", setting: ":method", ""),
    ])
  func empty(_ request: RequestCase) throws { try request.run(service) }

  @Test(
    "An overlong field is rejected",
    arguments: [
      RequestCase("authorization", 403, "InvalidProviderToken") {
        $0.setting("authorization", "bearer " + String(repeating: "a", count: 3000))
      },
      RequestCase("id", 400, "BadMessageId") {
        $0.setting("apns-id", String(repeating: "a", count: 3000))
      },
      RequestCase("expiration", 400, "BadExpirationDate") {
        $0.setting("apns-expiration", String(repeating: "9", count: 3000))
      },
      RequestCase("topic", 400, "BadTopic") {
        $0.setting("apns-topic", String(repeating: "a", count: 3000))
      },
      RequestCase("collapse id", 400, "BadCollapseId") {
        $0.setting("apns-collapse-id", String(repeating: "a", count: 3000))
      },
      RequestCase("all of them together", 431, "HeaderListTooLarge") {
        $0 + [RawHeader("x", String(repeating: "a", count: 9000))]
      },
    ])
  func oversized(_ request: RequestCase) throws { try request.run(service) }

  @Test("An oversized header list is reset, and the connection continues")
  func enormous() throws {
    try withBystanders(service) {
      let provider = try service.provider()
      let headers = try service.pushHeaders(
        to: Shared.absentToken, authorization: service.authorization())
      let stream = provider.takeStream()
      let block = HPACKLiteral.block(
        headers + (0..<10).map { RawHeader("x-\($0)", String(repeating: "a", count: 7000)) })
      let parts = stride(from: 0, to: block.count, by: 16_384).map { start in
        Array(block[start..<min(start + 16_384, block.count)])
      }
      try provider.send(
        parts.enumerated().map { index, part in
          HTTP2Frame(
            index == 0 ? HTTP2Frame.Kind.headers : HTTP2Frame.Kind.continuation,
            flags: index == parts.count - 1 ? HTTP2Frame.Flag.endHeaders : 0, stream: stream, part)
        })
      // ENHANCE_YOUR_CALM
      guard case .reset(11) = try provider.outcome(of: stream) else {
        Issue.record("a header list of 70,000 bytes was answered")
        return
      }
      #expect(try provider.exchange(headers, body: TestService.payload).status == 200)
    }
  }

  @Test(
    "Bytes that are not UTF-8 are rejected",
    arguments: [
      ("authorization", 403, "MissingProviderToken"), ("apns-id", 400, "BadMessageId"),
      ("apns-push-type", 400, "InvalidPushType"), ("apns-expiration", 400, "BadExpirationDate"),
      ("apns-priority", 400, "BadPriority"), ("apns-topic", 400, "BadTopic"),
      (":path", 404, "BadPath"), (":method", 405, "MethodNotAllowed"),
    ])
  func notText(name: String, status: Int, reason: String) throws {
    try RequestCase(name, status, reason) {
      $0.setting(name, Array<UInt8>([0xff, 0xfe, 0x80, 0xc0]))
    }.run(service)
  }

  @Test("Invalid bytes in a field make the request malformed", arguments: [0x00, 0x0a, 0x0d])
  func forbidden(byte: Int) throws {
    try withBystanders(service) {
      let provider = try service.provider()
      let headers = try service.pushHeaders(
        to: Shared.absentToken, authorization: service.authorization())
      let stream = try provider.request(
        headers.setting("apns-collapse-id", Array<UInt8>([0x61, UInt8(byte), 0x61])),
        body: TestService.payload)
      guard case .reset(1) = try provider.outcome(of: stream) else {
        Issue.record("a field with byte \(byte) was accepted")
        return
      }
      #expect(try provider.exchange(headers, body: TestService.payload).status == 200)
    }
  }

  @Test("A header block that cannot be decoded ends the connection with COMPRESSION_ERROR")
  func undecodable() throws {
    try withBystanders(service) {
      let provider = try service.provider()
      // An index in no table: RFC 7541, section 2.3.3.
      try provider.send(
        HTTP2Frame(HTTP2Frame.Kind.headers, flags: 0x5, stream: 1, [0xff, 0x80, 0x10]))
      let end = try provider.end()
      #expect(end.goAways.map(\.code) == [9])
      #expect(end.end == .closeNotify)
    }
  }
}
