import ApusCore
import ApusModel
import ApusServer
import ApusTesting
import ApusTrust
import ApusWire
import Testing

/// Tampered credentials: the answers on the wire, and the reports to the operator.
@Suite("Invalid tokens", .timeLimit(.minutes(30)))
struct BadTokenTests {
  let service: TestService
  var directory: TestDirectory { service.directory }
  private var key: ProviderKeyPair { directory.key }

  init() throws { service = try TestService() }

  private func exchange(_ authorization: String) throws -> RawResponse {
    try service.provider().exchange(
      service.pushHeaders(to: Shared.absentToken, authorization: authorization),
      body: TestService.payload)
  }

  // MARK: The all-zero token

  @Test(
    "Testing a valid credential is one audit line per connection; an invalid one, one per request")
  func probes() throws {
    defer { service.stop() }
    let audit = AuditLines(service)
    let zeros = String(repeating: "0", count: 2 * DeviceToken.byteCount)
    func refusals(_ authorization: String) throws -> [String] {
      let before = audit.all().count
      let provider = try service.provider()
      for _ in 1...3 {
        let response = try provider.exchange(
          service.pushHeaders(to: zeros, authorization: authorization), body: TestService.payload)
        #expect(response.status ?? 0 >= 400)
      }
      // A line is written before its request is answered.
      return audit.all().dropFirst(before).compactMap { $0["reason"] as? String }
    }
    #expect(try refusals(service.authorization()) == ["BadDeviceToken"])
    #expect(try refusals(service.authorization()) == ["BadDeviceToken"])
    #expect(service.service.rejections()[.badDeviceToken] == 0)
    let foreign = try "bearer \(directory.unknownKey.token())"
    #expect(try refusals(foreign) == [Self.none, Self.none, Self.none])
    #expect(service.service.rejections()[.invalidProviderToken] == 3)
  }

  // MARK: Provider tokens

  private static let none = "InvalidProviderToken"

  @Test(
    "Each invalid provider token has its answer, and an explanation of what would be valid"
  )
  func providerTokens() throws {
    defer { service.stop() }
    let now = TestDirectory.nowSeconds
    let (id, team) = (key.id.text, key.team.text)
    let good = try key.token()
    let parts = good.split(separator: ".").map(String.init)
    func signed(_ header: String) throws -> String {
      try key.token(header: header, claims: key.claims(issuedAt: "\(now)"))
    }
    func withSignature(_ bytes: [UInt8]) -> String {
      "\(parts[0]).\(parts[1]).\(String(decoding: Base64URL.encode(bytes.span), as: UTF8.self))"
    }
    let otherIssuer = ProviderKeyPair(id: key.id, team: directory.foreignTeam, key: key.key)
    let otherKey = ProviderKeyPair(id: key.id, team: key.team, key: directory.foreignKey.key)
    let zero = [UInt8](repeating: 0, count: 32)
    let one = zero.dropLast() + [1]
    let cases: [(String, String, String)] = try [
      ("", Self.none, "three base64url parts"),
      ("a.b", Self.none, "three base64url parts"),
      ("\(parts[0])+.\(parts[1]).\(parts[2])", Self.none, "three base64url parts"),
      ("\(parts[0]).\(parts[1])\u{7f}.\(parts[2])", Self.none, "three base64url parts"),
      (good + String(repeating: "A", count: Limits.providerTokenBytes), Self.none, "longer than"),
      (signed(#"{"alg":"none","kid":"\#(id)"}"#), Self.none, "alg is not ES256"),
      (signed(#"{"alg":"HS256","kid":"\#(id)"}"#), Self.none, "alg is not ES256"),
      (signed(#"{"alg":"RS256","kid":"\#(id)"}"#), Self.none, "alg is not ES256"),
      (signed(#"{"alg":"es256","kid":"\#(id)"}"#), Self.none, "alg is not ES256"),
      (signed(#"{"alg":"ES256"}"#), Self.none, "lacks kid"),
      (signed(#"{"alg":"ES256","kid":"\#(id)","kid":"\#(id)"}"#), Self.none, "lacks kid"),
      (
        key.token(header: key.header, claims: #"{"iss":"\#(team)"}"#), Self.none,
        "lacks kid, iss or iat"
      ),
      (key.token(header: key.header, claims: key.claims(issuedAt: "{}")), Self.none, "lacks kid"),
      (key.token(issuedAt: now * 1000), Self.none, "in the future"),
      (key.token(issuedAt: now + 3700), Self.none, "provider's clock"),
      (key.token(issuedAt: now - 3700), "ExpiredProviderToken", "issue a new one"),
      (directory.unknownKey.token(), Self.none, "key UNKNOWNKEY, which is not registered"),
      (directory.revokedKey.token(), Self.none, "key REVOKED001 is revoked"),
      (otherIssuer.token(), Self.none, "key \(id) belongs to team \(team)"),
      (
        otherKey.token(), Self.none,
        "key \(id) of team \(team), but its signature does not match that key"
      ),
      (directory.developmentKey.token(), "BadEnvironmentKeyInToken", "is for development"),
      (withSignature([]), Self.none, "base64url"),
      (withSignature(zero + zero), Self.none, "signature"),
      (withSignature(zero + one), Self.none, "signature"),
      (withSignature(one + zero), Self.none, "signature"),
      (withSignature([UInt8](repeating: 0xff, count: 64)), Self.none, "signature"),
      (withSignature([UInt8](repeating: 1, count: 63)), Self.none, "signature"),
      (withSignature([UInt8](repeating: 1, count: 65)), Self.none, "signature"),
      // DER: an empty sequence, one without its second number, a negative number, an extra byte.
      (withSignature([0x30, 0]), Self.none, "signature"),
      (withSignature([0x30, 3, 2, 1, 1]), Self.none, "signature"),
      (withSignature([0x30, 6, 2, 1, 0x81, 2, 1, 0x81]), Self.none, "signature"),
      (withSignature([0x30, 6, 2, 1, 1, 2, 1, 1, 0]), Self.none, "signature"),
    ]
    let audit = AuditLines(service)
    for (index, (token, reason, word)) in cases.enumerated() {
      // Empty text is not a token.
      if token.isEmpty { continue }
      let line = try audit.line("request.refused") {
        let response = try exchange("bearer \(token)")
        #expect(response.status == 403, "case \(index)")
        #expect(response.bodyText == #"{"reason":"\#(reason)"}"#, "case \(index)")
      }
      #expect(line["reason"] == reason, "case \(index)")
      #expect(line["explanation"]?.contains(word) == true, "case \(index): \(line)")
      #expect(line["listener"] == "http2 production")
      // The presented token may be a secret.
      #expect(line["explanation"]?.contains(parts[2].prefix(12)) == false)
    }
  }

  /// For ES256, (r, s) and (r, n - s) are both valid signatures: anyone who sees one can compute the other. It must be
  /// treated as the same token.
  @Test("The other valid signature of a token does not make it a different token")
  func malleability() throws {
    defer { service.stop() }
    let token = try key.token(issuedAt: TestDirectory.nowSeconds - 60)
    let parts = token.split(separator: ".").map(String.init)
    let text = Array(parts[2].utf8)
    let decoded = Base64URL.decode(text.span)
    let signature = try #require(decoded)
    #expect(signature.count == 64)
    let twin = signature.prefix(32) + Self.orderMinus(Array(signature.suffix(32)))
    let other =
      "\(parts[0]).\(parts[1])."
      + String(decoding: Base64URL.encode(Array(twin).span), as: UTF8.self)
    let provider = try service.provider()
    for text in [token, other, token, other] {
      let response = try provider.exchange(
        service.pushHeaders(to: Shared.absentToken, authorization: "bearer \(text)"),
        body: TestService.payload)
      #expect(
        response.status == 400, "the device token is another service's, and that alone is wrong")
      #expect(response.bodyText == #"{"reason":"BadDeviceToken"}"#)
    }
  }

  /// n - s for the order n of P-256. SEC 2, section 2.4.2.
  private static func orderMinus(_ s: [UInt8]) -> [UInt8] {
    let order = hex(
      "ffffffff00000000ffffffffffffffff bce6faada7179e84f3b9cac2fc632551")
    var result = [UInt8](repeating: 0, count: 32)
    var borrow = 0
    for index in (0..<32).reversed() {
      let difference = Int(order[index]) - Int(s[index]) - borrow
      borrow = difference < 0 ? 1 : 0
      result[index] = UInt8(truncatingIfNeeded: difference)
    }
    return result
  }

  // MARK: Device tokens

  @Test("A device token with any changed bit is rejected by both listeners")
  func everyBit() throws {
    defer { service.stop() }
    let device = try service.connect()
    let token = hex(try device.token())
    let provider = try service.provider()
    let authorization = try service.authorization()
    let identity = try directory.providerIdentity()
    for bit in 0..<256 {
      var bad = token
      bad[bit / 8] ^= 1 << UInt8(bit % 8)
      let text = bad.map { String($0, radix: 16, width: 2) }.joined()
      let response = try provider.exchange(
        service.pushHeaders(to: text, authorization: authorization), body: TestService.payload)
      #expect(
        response.status == 400 && response.bodyText == #"{"reason":"BadDeviceToken"}"#, "bit \(bit)"
      )
      // One in eight on the other listener, since each ends its connection.
      guard bit % 8 == bit / 8 % 8 else { continue }
      let client = try service.gateway(.standard, identity: identity)
      try client.send(GatewayFrame.framed(UInt32(bit), bad))
      try expectEnd(client, GatewayFrame.packet(8, UInt32(bit)))
    }
    try device.settle()
  }

  @Test("A device token of another key, environment, app or generation, or a cut one, is rejected")
  func deviceTokens() throws {
    defer { service.stop() }
    let device = try service.connect()
    let good = try device.token()
    let id = device.device.id
    let foreign = try TokenSealer(TokenSealingKeys([.random(id: 1)])).seal(
      TokenClaims(
        device: id, topic: TopicKey(app: AppID(1)), environment: .production, generation: 1))
    let cases: [(String, Int, String, UInt8)] = [
      (foreign.hex, 400, "BadDeviceToken", 8),
      (directory.deviceToken(id, environment: .development).hex, 400, "BadDeviceToken", 8),
      (directory.deviceToken(id, app: 2).hex, 400, "DeviceTokenNotForTopic", 8),
      (String(good.dropLast(2)), 400, "BadDeviceToken", 5),
      (good + "00", 400, "BadDeviceToken", 5),
      (String(good.dropLast()), 400, "BadDeviceToken", 5),
      (directory.deviceToken(id, generation: 9).hex, 410, "Unregistered", 0),
    ]
    let provider = try service.provider()
    for (token, status, reason, _) in cases {
      let response = try provider.exchange(
        service.pushHeaders(to: token, authorization: service.authorization()),
        body: TestService.payload)
      #expect(response.status == status, "\(token)")
      #expect(
        response.bodyText.contains(#""reason":"\#(reason)""#), "\(token): \(response.bodyText)")
    }
    let identity = try directory.providerIdentity()
    for (token, _, _, status) in cases where token.count % 2 == 0 {
      let client = try service.gateway(.standard, identity: identity)
      try client.send(GatewayFrame.framed(1, hex(token)))
      if status == 0 {
        // An inactive token is not an error: processing continues.
        try client.send(GatewayFrame.knownBad(2))
        try expectEnd(client, GatewayFrame.packet(2, 2))
      } else {
        try expectEnd(client, GatewayFrame.packet(status, 1))
      }
    }
    try device.settle()
  }

  // MARK: Enrolment codes

  @Test(
    "Unknown, used and expired codes get the same answer, and differ in the audit log"
  )
  func codes() throws {
    defer { service.stop() }
    let used = try directory.code()
    _ = try Applicant(service).enrolled(code: used)
    let expired = try directory.code(expiresIn: -1)
    let audit = AuditLines(service)
    var answers: Set<[UInt8]> = []
    for (code, reason) in [
      ("04HM-ASW9-NF6Y-ZZPW-QAC7-CN1J-205A", "code unknown"), (used, "code used up"),
      (expired, "code expired"), ("not a code", "code malformed"),
    ] {
      let line = try audit.line("enrolment.refused") {
        answers.insert(try Applicant(service).ask(code: code).bytes)
      }
      #expect(line["reason"] == reason)
      #expect(line["actor"] == "127.0.0.1")
    }
    #expect(answers.count == 1)
  }
}

extension String {
  fileprivate init(_ value: UInt8, radix: Int, width: Int) {
    let digits = String(value, radix: radix)
    self = String(repeating: "0", count: width - digits.count) + digits
  }
}
