import ApusModel
import ApusTesting
import Testing

/// Handling notification responses from APNs: the reasons that a request's own bytes can cause.
@Suite("A bad request gets the matching reason, without side effects")
struct RequestReasonTests {
  let service: TestService

  init() throws { service = try Shared.service }

  @Test(
    "Bad paths and methods are rejected",
    arguments: [
      RequestCase("another path", 404, "BadPath", setting: ":path", "/3/devices/\(madeUpToken)"),
      RequestCase("the root", 404, "BadPath", setting: ":path", "/"),
      RequestCase("an empty path", 404, "BadPath", setting: ":path", ""),
      RequestCase("one more segment", 404, "BadPath", setting: ":path", "/3/device/ab/cd"),
      RequestCase("a query", 404, "BadPath", setting: ":path", "/3/device/\(madeUpToken)?x=1"),
      RequestCase("another version", 404, "BadPath", setting: ":path", "/2/device/\(madeUpToken)"),
      RequestCase("GET", 405, "MethodNotAllowed", setting: ":method", "GET"),
      RequestCase("PUT", 405, "MethodNotAllowed", setting: ":method", "PUT"),
      RequestCase("lower case", 405, "MethodNotAllowed", setting: ":method", "post"),
    ])
  func head(_ request: RequestCase) throws { try request.run(service) }

  @Test(
    "Bad fields are rejected",
    arguments: [
      RequestCase("id of other digits", 400, "BadMessageId", setting: "apns-id", "not-a-uuid"),
      RequestCase(
        "id without hyphens", 400, "BadMessageId", setting: "apns-id",
        "a1b2c3d4e5f60718293a4b5c6d7e8f90"),
      RequestCase("negative date", 400, "BadExpirationDate", setting: "apns-expiration", "-1"),
      RequestCase(
        "fraction of a date", 400, "BadExpirationDate", setting: "apns-expiration", "1.5"),
      RequestCase("words for a date", 400, "BadExpirationDate", setting: "apns-expiration", "now"),
      RequestCase("priority 0", 400, "BadPriority", setting: "apns-priority", "0"),
      RequestCase("priority 11", 400, "BadPriority", setting: "apns-priority", "11"),
      RequestCase("priority 010", 400, "BadPriority", setting: "apns-priority", "010"),
      RequestCase("background at priority 10", 400, "BadPriority") {
        $0.setting("apns-push-type", "background").setting("apns-priority", "10")
      },
      RequestCase(
        "collapse id of 65 bytes", 400, "BadCollapseId", setting: "apns-collapse-id",
        String(repeating: "c", count: 65)),
      RequestCase("unknown type", 400, "InvalidPushType", setting: "apns-push-type", "shout"),
      RequestCase("no topic", 400, "MissingTopic") { $0.without("apns-topic") },
      RequestCase("topic with a space", 400, "BadTopic", setting: "apns-topic", "com.example app"),
      RequestCase(
        "topic of no app", 400, "TopicDisallowed", setting: "apns-topic",
        TestDirectory.unknownTopic),
      RequestCase(
        "topic of another team", 400, "TopicDisallowed", setting: "apns-topic",
        TestDirectory.foreignTopic),
      RequestCase("topic for another type", 400, "TopicDisallowed") {
        $0.setting("apns-push-type", "voip")
      },
      RequestCase(
        "topic of another app", 400, "DeviceTokenNotForTopic", setting: "apns-topic",
        TestDirectory.otherTopic),
      RequestCase("ordinary token on a topic with a suffix", 400, "DeviceTokenNotForTopic") {
        $0.setting("apns-topic", "\(TestDirectory.topic).voip").setting("apns-push-type", "voip")
      },
    ])
  func fields(_ request: RequestCase) throws { try request.run(service) }

  @Test(
    "Bad device tokens are rejected",
    arguments: [
      RequestCase("none", 400, "MissingDeviceToken", setting: ":path", "/3/device/"),
      RequestCase("none, and no slash", 400, "MissingDeviceToken", setting: ":path", "/3/device"),
      RequestCase("made up", 400, "BadDeviceToken", setting: ":path", "/3/device/\(madeUpToken)"),
      RequestCase("odd digits", 400, "BadDeviceToken", setting: ":path", "/3/device/abc"),
      RequestCase("no digits", 400, "BadDeviceToken") {
        $0.setting(":path", "/3/device/" + String(repeating: "z", count: 64))
      },
      RequestCase("longer than any", 400, "BadDeviceToken") {
        $0.setting(":path", "/3/device/" + String(repeating: "ab", count: 200))
      },
      RequestCase("one bit changed", 400, "BadDeviceToken") { headers in
        let token = try Shared.absentToken
        let last: Character = token.last == "0" ? "1" : "0"
        return headers.setting(":path", "/3/device/\(token.dropLast())\(last)")
      },
      RequestCase("of the other environment", 400, "BadDeviceToken") { headers in
        let directory = try Shared.service.directory
        let token = try directory.deviceToken(directory.device().id, environment: .development)
        return headers.setting(":path", "/3/device/\(token.hex)")
      },
      RequestCase("of a device without that app", 400, "DeviceTokenNotForTopic") { headers in
        let directory = try Shared.service.directory
        let token = try directory.baseToken(directory.device().id)
        return headers.setting(":path", "/3/device/\(token.hex)")
      },
    ])
  func deviceTokens(_ request: RequestCase) throws { try request.run(service) }

  @Test("Of two faults, the one that APNs checks first is reported")
  func order() throws {
    let provider = try service.provider()
    let good = try service.pushHeaders(to: "xyz", authorization: service.authorization())
    // Each step corrects the first fault of the previous request.
    let bad =
      good.setting(":path", "/x").setting(":method", "GET").setting("apns-id", "bad")
      .setting("apns-expiration", "bad").setting("apns-priority", "bad")
      .setting("apns-collapse-id", String(repeating: "c", count: 65))
      .setting("apns-push-type", "bad").setting("apns-topic", "b d")
      .setting("authorization", "bearer x") + [RawHeader("apns-id", "bad")]
    let steps: [(Int, String, ([RawHeader]) -> [RawHeader])] = [
      (404, "BadPath", { $0 }),
      (405, "MethodNotAllowed", { $0.setting(":path", "/3/device/xyz") }),
      (400, "DuplicateHeaders", { $0.setting(":method", "POST") }),
      (403, "InvalidProviderToken", { $0.dropLast() }),
      (400, "BadMessageId", { $0.setting("authorization", good.first("authorization")) }),
      (400, "BadExpirationDate", { $0.without("apns-id") }),
      (400, "BadPriority", { $0.without("apns-expiration") }),
      (400, "BadCollapseId", { $0.without("apns-priority") }),
      (400, "InvalidPushType", { $0.without("apns-collapse-id") }),
      (400, "BadTopic", { $0.without("apns-push-type") }),
      (400, "PayloadEmpty", { $0.setting("apns-topic", TestDirectory.unknownTopic) }),
    ]
    var headers = bad
    for (status, reason, mend) in steps {
      headers = mend(headers)
      expectRefusal(try provider.exchange(headers, body: []), status, reason)
    }
    expectRefusal(
      try provider.exchange(headers, body: TestService.payload), 400, "BadDeviceToken")
    headers = headers.setting(":path", "/3/device/\(try Shared.absentToken)")
    expectRefusal(
      try provider.exchange(headers, body: TestService.payload), 400, "TopicDisallowed")
  }
}

extension [RawHeader] {
  fileprivate func first(_ name: String) -> String { first { $0.name == name }?.text ?? "" }
}
