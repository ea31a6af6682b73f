import ApusCore
import ApusModel
import Testing

struct AdmissionTests {
  @Test("A valid request is accepted, and becomes the notification that it describes")
  func accepted() throws {
    var request = Request()
    request.set(.apnsID, "123e4567-e89b-12d3-a456-4266554400a0")
    request.set(.apnsCollapseID, "score")
    request.set(.apnsPriority, "5")
    request.set(.apnsExpiration, "\(World.now + 60)")
    var driver = try Driver()
    let notification = try driver.send(request)
    #expect(notification.id.text == "123E4567-E89B-12D3-A456-4266554400A0")
    #expect(notification.claims == World.claims())
    #expect(notification.token == World.token)
    #expect(notification.priority == .powerSaving)
    #expect(notification.pushType == .alert)
    #expect(notification.expirationSeconds == World.now + 60)
    #expect(notification.acceptedMilliseconds == World.now * 1000)
    #expect(notification.collapseID.span.text == "score")
    #expect(notification.payload.span.text == #"{"aps":{"alert":"hello"}}"#)
  }

  @Test("Each row of the tables of fields and reasons holds", arguments: rows)
  func row(_ row: Spoiled) throws {
    var request = Request()
    row.spoil(&request)
    var driver = try Driver()
    #expect(driver.reason(request) == row.reason)
  }

  static let rows: [Spoiled] = head + authorization + fieldValues + topics + bodies + tokens

  static let head: [Spoiled] = [
    Spoiled("header list too large", .headerListTooLarge) { $0.headerListTooLarge = true },
    Spoiled("no path", .badPath) { $0.remove(.path) },
    Spoiled("root path", .badPath) { $0.set(.path, "/") },
    Spoiled("other version", .badPath) { $0.set(.path, "/4/device/\(World.token.hex)") },
    Spoiled("plural", .badPath) { $0.set(.path, "/3/devices/\(World.token.hex)") },
    Spoiled("no leading solidus", .badPath) { $0.set(.path, "3/device/\(World.token.hex)") },
    Spoiled("query", .badPath) { $0.set(.path, "/3/device/\(World.token.hex)?a=b") },
    Spoiled("query without token", .badPath) { $0.set(.path, "/3/device?a") },
    Spoiled("fragment", .badPath) { $0.set(.path, "/3/device/\(World.token.hex)#a") },
    Spoiled("further segment", .badPath) { $0.set(.path, "/3/device/\(World.token.hex)/x") },
    Spoiled("trailing solidus", .badPath) { $0.set(.path, "/3/device/\(World.token.hex)/") },
    Spoiled("upper-case path", .badPath) { $0.set(.path, "/3/DEVICE/\(World.token.hex)") },
    Spoiled("GET", .methodNotAllowed) { $0.set(.method, "GET") },
    Spoiled("lower-case post", .methodNotAllowed) { $0.set(.method, "post") },
    Spoiled("empty method", .methodNotAllowed) { $0.set(.method, "") },
    Spoiled("host in place of authority", nil) {
      $0.remove(.authority)
      $0.set(.host, "api.push.apple.com")
    },
    Spoiled("neither authority nor scheme", nil) {
      $0.remove(.authority)
      $0.remove(.scheme)
    },
    Spoiled("content-type twice is ignored", nil) { $0.double(.contentType) },
  ]

  static let authorization: [Spoiled] = [
    Spoiled("no authorization", .missingProviderToken) { $0.remove(.authorization) },
    Spoiled("empty authorization", .missingProviderToken) { $0.set(.authorization, "") },
    Spoiled("scheme only", .missingProviderToken) { $0.set(.authorization, "bearer") },
    Spoiled("scheme and space", .missingProviderToken) { $0.set(.authorization, "bearer  ") },
    Spoiled("basic", .missingProviderToken) { $0.set(.authorization, "basic aaa.bbb.ccc") },
    Spoiled("no space", .missingProviderToken) { $0.set(.authorization, "beareraaa.bbb.ccc") },
    Spoiled("token only", .missingProviderToken) { $0.set(.authorization, "aaa.bbb.ccc") },
    Spoiled("Bearer", nil) { $0.set(.authorization, "Bearer aaa.bbb.ccc") },
    Spoiled("BEARER", nil) { $0.set(.authorization, "BEARER aaa.bbb.ccc") },
    Spoiled("2,048 bytes of token", nil) {
      $0.set(.authorization, "bearer " + String(repeating: "a", count: 2048))
    },
    Spoiled("2,049 bytes of token", .invalidProviderToken) {
      $0.set(.authorization, "bearer " + String(repeating: "a", count: 2049))
    },
    Spoiled("not to be believed", .invalidProviderToken) { $0.provider = nil },
  ]

  static let fieldValues: [Spoiled] = [
    Spoiled("upper-case id", nil) { $0.set(.apnsID, "123E4567-E89B-12D3-A456-4266554400A0") },
    Spoiled("id without hyphens", .badMessageID) {
      $0.set(.apnsID, "123e4567e89b12d3a4564266554400a0")
    },
    Spoiled("id in braces", .badMessageID) {
      $0.set(.apnsID, "{123e4567-e89b-12d3-a456-4266554400a0}")
    },
    Spoiled("empty id", .badMessageID) { $0.set(.apnsID, "") },
    Spoiled("expiration 0", nil) { $0.set(.apnsExpiration, "0") },
    Spoiled("expiration in the past", nil) { $0.set(.apnsExpiration, "1") },
    Spoiled("expiration in milliseconds", nil) { $0.set(.apnsExpiration, "1750000000000") },
    Spoiled("expiration of 2^63-1", nil) { $0.set(.apnsExpiration, "9223372036854775807") },
    Spoiled("expiration of 2^63", .badExpirationDate) {
      $0.set(.apnsExpiration, "9223372036854775808")
    },
    Spoiled("negative expiration", .badExpirationDate) { $0.set(.apnsExpiration, "-1") },
    Spoiled("fractional expiration", .badExpirationDate) { $0.set(.apnsExpiration, "1.5") },
    Spoiled("expiration with a space", .badExpirationDate) { $0.set(.apnsExpiration, "1 ") },
    Spoiled("expiration as a word", .badExpirationDate) { $0.set(.apnsExpiration, "never") },
    Spoiled("empty expiration", .badExpirationDate) { $0.set(.apnsExpiration, "") },
    Spoiled("priority 10", nil) { $0.set(.apnsPriority, "10") },
    Spoiled("priority 5", nil) { $0.set(.apnsPriority, "5") },
    Spoiled("priority 1", nil) { $0.set(.apnsPriority, "1") },
    Spoiled("priority 0", .badPriority) { $0.set(.apnsPriority, "0") },
    Spoiled("priority 05", .badPriority) { $0.set(.apnsPriority, "05") },
    Spoiled("priority 11", .badPriority) { $0.set(.apnsPriority, "11") },
    Spoiled("priority high", .badPriority) { $0.set(.apnsPriority, "high") },
    Spoiled("empty priority", .badPriority) { $0.set(.apnsPriority, "") },
    Spoiled("background at priority 10", .badPriority) {
      $0.set(.apnsPushType, "background")
      $0.set(.apnsPriority, "10")
    },
    Spoiled("background at priority 5", nil) {
      $0.set(.apnsPushType, "background")
      $0.set(.apnsPriority, "5")
    },
    Spoiled("background without priority", nil) { $0.set(.apnsPushType, "background") },
    Spoiled("collapse id of 64 bytes", nil) {
      $0.set(.apnsCollapseID, String(repeating: "c", count: 64))
    },
    Spoiled("collapse id of 65 bytes", .badCollapseID) {
      $0.set(.apnsCollapseID, String(repeating: "c", count: 65))
    },
    Spoiled("empty collapse id", nil) { $0.set(.apnsCollapseID, "") },
    Spoiled("collapse id that is not UTF-8", nil) { $0.set(.apnsCollapseID, [0xff, 0xfe]) },
    Spoiled("no push type", nil) { $0.remove(.apnsPushType) },
    Spoiled("push type in capitals", nil) { $0.set(.apnsPushType, "Alert") },
    Spoiled("unknown push type", .invalidPushType) { $0.set(.apnsPushType, "silent") },
    Spoiled("empty push type", .invalidPushType) { $0.set(.apnsPushType, "") },
  ]

  static let topics: [Spoiled] = [
    Spoiled("no topic", .missingTopic) { $0.remove(.apnsTopic) },
    Spoiled("empty topic", .missingTopic) { $0.set(.apnsTopic, "") },
    Spoiled("topic with a space", .badTopic) { $0.set(.apnsTopic, "com.example mail") },
    Spoiled("topic with a solidus", .badTopic) { $0.set(.apnsTopic, "com/example") },
    Spoiled("topic that begins with a full stop", .badTopic) { $0.set(.apnsTopic, ".voip") },
    Spoiled("topic that ends with a full stop", .badTopic) { $0.set(.apnsTopic, "com.") },
    Spoiled("topic with an empty label", .badTopic) { $0.set(.apnsTopic, "com..example") },
    Spoiled("topic of full stops", .badTopic) { $0.set(.apnsTopic, ".") },
    Spoiled("topic in another script", .badTopic) { $0.set(.apnsTopic, "com.exämple") },
    Spoiled("topic of 281 bytes", .badTopic) {
      $0.set(.apnsTopic, String(repeating: "a", count: 281))
    },
    Spoiled("topic of 280 bytes", .topicDisallowed) {
      $0.set(.apnsTopic, String(repeating: "a", count: 280))
    },
    Spoiled("topic with hyphen and underscore", .topicDisallowed) {
      $0.set(.apnsTopic, "com.ex-am_ple.9")
    },
    Spoiled("topic that is not registered", .topicDisallowed) {
      $0.set(.apnsTopic, "com.example.none")
    },
    Spoiled("topic in another case", .topicDisallowed) { $0.set(.apnsTopic, "com.Example.mail") },
    Spoiled("topic of another team", .topicDisallowed) { $0.set(.apnsTopic, "net.foreign.app") },
    Spoiled("topic not assigned to the key", .topicDisallowed) {
      $0.sign(World.topicKey)
      $0.set(.apnsTopic, "com.example.chat")
      $0.claims = World.claims(World.secondApp)
    },
    Spoiled("topic assigned to the key", nil) { $0.sign(World.topicKey) },
    Spoiled("both topics of a key", nil) {
      $0.sign(World.relatedTopicKey)
      $0.set(.apnsTopic, "com.example.chat")
      $0.claims = World.claims(World.secondApp)
    },
    Spoiled("alert to a suffixed topic", .topicDisallowed) {
      $0.set(.apnsTopic, "com.example.mail.voip")
      $0.claims = World.claims(World.app, .voip)
    },
    Spoiled("voip to the bundle id", .topicDisallowed) { $0.set(.apnsPushType, "voip") },
    Spoiled("voip to the topic of widgets", .topicDisallowed) {
      $0.set(.apnsPushType, "voip")
      $0.set(.apnsTopic, "com.example.mail.push-type.widgets")
      $0.claims = World.claims(World.app, .widgets)
    },
    Spoiled("suffixed topic without push type", nil) {
      $0.remove(.apnsPushType)
      $0.set(.apnsTopic, "com.example.mail.voip")
      $0.claims = World.claims(World.app, .voip)
    },
    Spoiled("suffix without an app", .topicDisallowed) {
      $0.set(.apnsPushType, "voip")
      $0.set(.apnsTopic, "com.example.none.voip")
    },
    Spoiled("suffix of another team's app", .topicDisallowed) {
      $0.set(.apnsPushType, "voip")
      $0.set(.apnsTopic, "net.foreign.app.voip")
    },
    Spoiled("ordinary token on a suffixed topic", .deviceTokenNotForTopic) {
      $0.set(.apnsPushType, "voip")
      $0.set(.apnsTopic, "com.example.mail.voip")
    },
    Spoiled("bundle id that ends in a suffix, as alert", nil) {
      $0.set(.apnsTopic, "com.example.calls.voip")
      $0.claims = World.claims(World.voipNamedApp)
    },
    Spoiled("bundle id that ends in a suffix, as voip", nil) {
      $0.set(.apnsPushType, "voip")
      $0.set(.apnsTopic, "com.example.calls.voip")
      $0.claims = World.claims(World.voipNamedApp)
    },
  ]

  static let bodies: [Spoiled] = [
    Spoiled("no body", .payloadEmpty) { $0.body = [] },
    Spoiled("4,096 bytes", nil) { $0.pad(toByteCount: 4096) },
    Spoiled("4,097 bytes", .payloadTooLarge) { $0.pad(toByteCount: 4097) },
    Spoiled("voip of 5,120 bytes", nil) {
      voip(&$0)
      $0.pad(toByteCount: 5120)
    },
    Spoiled("voip of 5,121 bytes", .payloadTooLarge) {
      voip(&$0)
      $0.pad(toByteCount: 5121)
    },
    Spoiled("topic of voip without type, 5,120 bytes", nil) {
      voip(&$0)
      $0.remove(.apnsPushType)
      $0.pad(toByteCount: 5120)
    },
    Spoiled("topic of voip without type, 5,121 bytes", .payloadTooLarge) {
      voip(&$0)
      $0.remove(.apnsPushType)
      $0.pad(toByteCount: 5121)
    },
    Spoiled("widgets of 4,097 bytes", .payloadTooLarge) {
      $0.set(.apnsPushType, "widgets")
      $0.set(.apnsTopic, "com.example.mail.push-type.widgets")
      $0.pad(toByteCount: 4097)
    },
    Spoiled("not JSON", .badRequestPayload) { $0.body = Array("hello".utf8) },
    Spoiled("array", .badRequestPayload) { $0.body = Array("[]".utf8) },
    Spoiled("half an object", .badRequestPayload) { $0.body = Array(#"{"aps":{}"#.utf8) },
    Spoiled("not UTF-8", .badRequestPayload) {
      $0.body = Array(#"{"aps":{"alert":""#.utf8) + [0xff] + Array(#""}}"#.utf8)
    },
    Spoiled("no aps", .badRequestPayload) { $0.body = Array(#"{"a":1}"#.utf8) },
    Spoiled("aps that is a string", .badRequestPayload) { $0.body = Array(#"{"aps":""}"#.utf8) },
    Spoiled("empty aps", nil) { $0.body = Array(#"{"aps":{}}"#.utf8) },
    Spoiled("mdm", nil) {
      $0.set(.apnsPushType, "mdm")
      $0.body = Array(#"{"mdm":"5DFAC5B7"}"#.utf8)
    },
    Spoiled("mdm without type", nil) {
      $0.remove(.apnsPushType)
      $0.body = Array(#"{"mdm":"5DFAC5B7"}"#.utf8)
    },
    Spoiled("type mdm without either key", .badRequestPayload) {
      $0.set(.apnsPushType, "mdm")
      $0.body = Array("{}".utf8)
    },
  ]

  static let tokens: [Spoiled] = [
    Spoiled("upper-case token", nil) { $0.set(.path, "/3/device/\(World.token.hex.uppercased())") },
    Spoiled("no token", .missingDeviceToken) { $0.set(.path, "/3/device/") },
    Spoiled("no token and no solidus", .missingDeviceToken) { $0.set(.path, "/3/device") },
    Spoiled("short token", .badDeviceToken) { $0.set(.path, "/3/device/aaaa") },
    Spoiled("odd token", .badDeviceToken) {
      $0.set(.path, "/3/device/\(World.token.hex.dropLast())")
    },
    Spoiled("token of 33 bytes", .badDeviceToken) {
      $0.set(.path, "/3/device/\(World.token.hex)00")
    },
    Spoiled("token of 100 bytes", .badDeviceToken) {
      $0.set(.path, "/3/device/" + String(repeating: "0", count: 200))
    },
    Spoiled("token of 101 bytes", .badDeviceToken) {
      $0.set(.path, "/3/device/" + String(repeating: "0", count: 202))
    },
    Spoiled("token that is not hexadecimal", .badDeviceToken) {
      $0.set(.path, "/3/device/" + String(repeating: "g", count: 64))
    },
    Spoiled("foreign token", .badDeviceToken) { $0.claims = nil },
    Spoiled("token of the other environment", .badDeviceToken) {
      $0.claims = World.claims(World.app, .none, .development)
    },
    Spoiled("token of another topic", .deviceTokenNotForTopic) {
      $0.claims = World.claims(World.secondApp)
    },
    Spoiled("base token, which is used for the requested topic", nil) {
      $0.claims = World.claims(.base)
    },
  ]

  private static func voip(_ request: inout Request) {
    request.set(.apnsPushType, "voip")
    request.set(.apnsTopic, "com.example.mail.voip")
    request.claims = World.claims(World.app, .voip)
  }

  @Test("Each push type requires its own topic", arguments: PushType.allCases)
  func pushType(_ type: PushType) throws {
    var request = Request()
    request.set(.apnsPushType, "\(type.name)")
    request.set(.apnsTopic, "com.example.mail\(type.topicSuffix.text)")
    request.claims = World.claims(World.app, type.topicSuffix)
    var driver = try Driver()
    #expect(driver.reason(request) == nil)
  }
}
