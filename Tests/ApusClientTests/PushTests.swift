import ApusHTTP2
import ApusModel
import ApusTrust
import Testing

@testable import ApusClient

@Suite("Invalid pushes are found before sending")
struct PushRequestTests {
  private let id = NotificationID(high: 1, low: 2)

  private func good() -> PushRequest {
    PushRequest(token: "0A1b", topic: "com.example.app", payload: Array("{}".utf8))
  }

  private func code(_ change: (inout PushRequest) -> Void) -> PushRequestError.Code? {
    var request = good()
    change(&request)
    do throws(PushRequestError) {
      _ = try EncodedPush(request, id: id)
      return nil
    } catch {
      #expect(!error.description.isEmpty)
      return error.code
    }
  }

  @Test(
    "A device token is hexadecimal, of 1 to 100 bytes",
    arguments: [
      ("", false), ("0", false), ("0g", false), ("0a1", false), ("0A", true),
      (String(repeating: "ff", count: 100), true), (String(repeating: "ff", count: 101), false),
      ("0a\r\n", false),
    ])
  func token(text: String, isGood: Bool) {
    #expect(code { $0.token = text } == (isGood ? nil : .invalidToken))
  }

  @Test(
    "A payload has at least one byte, and at most the limit of its type",
    arguments: [
      (PushType.alert, 0, false), (.alert, 1, true), (.alert, 4096, true), (.alert, 4097, false),
      (.voip, 5120, true), (.voip, 5121, false), (.background, 4097, false),
    ])
  func payload(type: PushType, count: Int, isGood: Bool) {
    let outcome = code {
      $0.pushType = type
      $0.payload = [UInt8](repeating: 0x20, count: count)
    }
    #expect(outcome == (isGood ? nil : .invalidPayload))
  }

  @Test(
    "A collapse id has 1 to 64 bytes that a header can carry",
    arguments: [
      ("", false), ("a", true), (String(repeating: "a", count: 64), true),
      (String(repeating: "a", count: 65), false), (String(repeating: "ä", count: 33), false),
      ("a\r\nb", false), (" a", false), ("a b", true), ("a\u{7f}", false),
    ])
  func collapseID(text: String, isGood: Bool) {
    #expect(code { $0.collapseID = text } == (isGood ? nil : .invalidCollapseID))
  }

  @Test("A topic cannot break out of its header field")
  func topic() {
    #expect(code { $0.topic = "com.example\nx" } == .invalidTopic)
    #expect(code { $0.topic = "" } == .invalidTopic)
    #expect(code { $0.topic = nil } == nil)
  }

  @Test("An expiration is not negative")
  func expiration() {
    #expect(code { $0.expirationSeconds = -1 } == .invalidExpiration)
    #expect(code { $0.expirationSeconds = 0 } == nil)
    #expect(code { $0.expirationSeconds = .max } == nil)
  }

  /// The fields of the request by name.
  private func sent(_ request: PushRequest) throws -> [HeaderName: String] {
    let authority = Array("push.example".utf8)
    let push = try EncodedPush(request, id: id)
    let client = HTTP2ClientSession()
    client.share(authority: authority.span, authorization: [])
    let server = HTTP2ServerSession(
      configuration: .trusted, pool: HTTP2RequestPool(), nowMilliseconds: 0)
    let settings = Frames.settings(streams: 1)
    _ = client.receive(settings.span)
    #expect(client.submit(push.fields, body: push.payload, tag: 0) == 1)
    var output: [UInt8] = []
    client.pendingOutput(into: &output, limit: .max)
    _ = server.receive(output.span, nowMilliseconds: 0)
    let received = try #require(server.nextRequest())
    let fields = received.fields
    var text: [HeaderName: String] = [:]
    for name in HeaderName.allCases where fields.contains(name) {
      text[name] = fields.value(name).text
    }
    return text
  }

  @Test("Every given field is sent")
  func allFields() throws {
    var request = good()
    request.pushType = .voip
    request.priority = .whenActive
    request.expirationSeconds = 1_700_000_000
    request.collapseID = "score"
    request.id = NotificationID(high: 0xabcd_ef01_0000_0000, low: 7)
    let text = try sent(request)
    #expect(text[.path] == "/3/device/0A1b")
    #expect(text[.apnsPushType] == "voip")
    #expect(text[.apnsPriority] == "1")
    #expect(text[.apnsExpiration] == "1700000000")
    #expect(text[.apnsCollapseID] == "score")
    #expect(text[.apnsID] == "abcdef01-0000-0000-0000-000000000007")
  }

  @Test("A background push gets its only valid priority, unless set otherwise")
  func background() throws {
    var request = good()
    request.pushType = .background
    var text = try sent(request)
    #expect(text[.apnsPriority] == "5")
    request.priority = .immediate
    text = try sent(request)
    #expect(text[.apnsPriority] == "10")
  }
}

@Suite("Alerts as JSON")
struct AlertPayloadTests {
  @Test("Alerts contain all keys, with JSON escapes")
  func everything() {
    let payload = AlertPayload(
      title: "A \"title\"", subtitle: "b\\", body: "c\nd", badge: 0, sound: "default",
      category: "e", threadID: "ü")
    #expect(
      String(decoding: payload.bytes, as: UTF8.self)
        == #"{"aps":{"alert":{"title":"A \"title\"","subtitle":"b\\","body":"c\nd"},"badge":0,"#
        + #""sound":"default","category":"e","thread-id":"ü"}}"#)
  }

  @Test("Unset properties are left out")
  func parts() {
    #expect(String(decoding: AlertPayload().bytes, as: UTF8.self) == #"{"aps":{}}"#)
    #expect(
      String(decoding: AlertPayload(body: "x").bytes, as: UTF8.self)
        == #"{"aps":{"alert":{"body":"x"}}}"#)
  }
}

@Suite("Endpoints")
struct EndpointTests {
  @Test(
    "Host and port are read",
    arguments: [
      ("push.example", "push.example", 443), ("push.example:2197", "push.example", 2197),
      ("192.0.2.1:1", "192.0.2.1", 1), ("[2001:db8::1]:65535", "2001:db8::1", 65535),
      ("[::1]", "::1", 443),
    ])
  func good(text: String, host: String, port: Int) throws {
    let endpoint = try #require(Endpoint(text))
    #expect(endpoint.host == host)
    #expect(Int(endpoint.port) == port)
  }

  @Test(
    "Invalid endpoints are rejected",
    arguments: ["", ":1", "a:", "a:0", "a:65536", "a:+1", "::1", "[::1", "a:b:1", "[::1]x", "[]:1"])
  func bad(text: String) { #expect(Endpoint(text) == nil) }

  @Test("The authority contains the port unless it is the scheme's default")
  func authority() {
    #expect(Endpoint.apple(.production).authority == "api.push.apple.com")
    #expect(Endpoint(host: "::1", port: 2197).authority == "[::1]:2197")
    #expect(Endpoint(host: "a", port: 2197).authority == "a:2197")
  }
}

@Suite("Provider tokens are created, kept and replaced")
struct ProviderTokenSourceTests {
  private func source() throws -> ProviderTokenSource {
    ProviderTokenSource(
      key: try PrivateKey.generateP256(), keyID: "ABCDE12345", teamID: "TEAM123456")
  }

  private func token(_ field: [UInt8]) throws -> ProviderToken {
    #expect(String(decoding: field.prefix(7), as: UTF8.self) == "bearer ")
    let text = Array(field.dropFirst(7))
    return try ProviderToken.parse(text.span)
  }

  @Test("A token is used for 40 minutes, starting at a multiple of 40 minutes")
  func reuse() throws {
    var source = try source()
    let first = try source.authorization(nowSeconds: 1_700_000_399)
    #expect(try token(first).issuedAt == 1_699_999_200)
    #expect(try token(first).keyID == "ABCDE12345")
    #expect(try token(first).teamID == "TEAM123456")
    let kept = try source.authorization(nowSeconds: 1_699_999_200 + 2399)
    #expect(kept == first)
    let second = try source.authorization(nowSeconds: 1_699_999_200 + 2400)
    #expect(try token(second).issuedAt == 1_699_999_200 + 2400)
  }

  @Test("The signature belongs to the key")
  func signature() throws {
    let key = try PrivateKey.generateP256()
    var source = ProviderTokenSource(key: key, keyID: "ABCDE12345", teamID: "TEAM123456")
    let field = try source.authorization(nowSeconds: 1_700_000_000)
    let text = Array(field.dropFirst(7))
    #expect(
      try ProviderKeyVerifier(publicKey: key.publicKey).verifies(token(field), in: text.span))
    let other = try PrivateKey.generateP256()
    #expect(
      try !ProviderKeyVerifier(publicKey: other.publicKey).verifies(token(field), in: text.span))
  }

  @Test("After a clock change, the token has the new time")
  func clock() throws {
    var source = try source()
    _ = try source.authorization(nowSeconds: 1_700_000_000)
    let back = try source.authorization(nowSeconds: 1_600_000_000)
    #expect(try token(back).issuedAt == 1_599_998_400)
    let forth = try source.authorization(nowSeconds: 1_800_000_000)
    #expect(try token(forth).issuedAt == 1_800_000_000)
  }
}

@Suite("Invalid configurations are rejected")
struct ConfigurationTests {
  private func problem(
    _ credential: ClientConfiguration.Credential,
    _ change: (inout ClientConfiguration) -> Void = { _ in }
  ) -> String? {
    var configuration = ClientConfiguration(
      endpoint: Endpoint(host: "localhost", port: 1), credential: credential)
    change(&configuration)
    do {
      _ = try APNSClient(configuration)
      return nil
    } catch {
      return error.description
    }
  }

  @Test("Keys, ids, certificates and numbers are validated")
  func problems() throws {
    let key = Array(try PrivateKey.generateP256().pkcs8PEM.utf8)
    let good = ClientConfiguration.Credential.providerToken(
      keyPEM: key, keyID: "ABCDE12345", teamID: "TEAM123456")
    #expect(problem(good) == nil)
    #expect(
      problem(.providerToken(keyPEM: [], keyID: "ABCDE12345", teamID: "T"))?
        .contains("PRIVATE KEY") == true)
    #expect(
      problem(.providerToken(keyPEM: key, keyID: "short", teamID: "TEAM123456"))?
        .contains("\"short\" is not an id") == true)
    #expect(
      problem(.certificate(certificatePEM: [], keyPEM: key))?.contains("certificate") == true)
    #expect(problem(good) { $0.sendTimeoutSeconds = 0 }?.contains("sendTimeoutSeconds") == true)
    #expect(problem(good) { $0.queueCapacity = 0 }?.contains("queueCapacity") == true)
    #expect(problem(good) { $0.endpoint.host = "" }?.contains("endpoint") == true)
    #expect(problem(good) { $0.trustRoots = .pem([1]) }?.contains("trust roots") == true)
  }
}
