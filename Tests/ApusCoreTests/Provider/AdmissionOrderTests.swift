import ApusCore
import ApusModel
import Testing

struct AdmissionOrderTests {
  /// One fault for each step, in the order of the checks.
  static let faults: [Spoiled] = [
    Spoiled("header list", .headerListTooLarge) { $0.headerListTooLarge = true },
    Spoiled("path", .badPath) { $0.set(.path, "/3/devices/aaaa") },
    Spoiled("method", .methodNotAllowed) { $0.set(.method, "GET") },
    Spoiled("duplicates", .duplicateHeaders) { $0.double(.host) },
    Spoiled("no provider token", .missingProviderToken) { $0.set(.authorization, "") },
    Spoiled("provider token", .invalidProviderToken) { $0.provider = nil },
    Spoiled("old provider token", .expiredProviderToken) {
      $0.sign(World.developmentKey, age: 3601)
    },
    Spoiled("key's environment", .badEnvironmentKeyInToken) { $0.sign(World.developmentKey) },
    Spoiled("id", .badMessageID) { $0.set(.apnsID, "1") },
    Spoiled("expiration", .badExpirationDate) { $0.set(.apnsExpiration, "x") },
    Spoiled("priority", .badPriority) { $0.set(.apnsPriority, "7") },
    Spoiled("collapse id", .badCollapseID) {
      $0.set(.apnsCollapseID, String(repeating: "c", count: 65))
    },
    Spoiled("push type", .invalidPushType) { $0.set(.apnsPushType, "x") },
    Spoiled("no topic", .missingTopic) { $0.set(.apnsTopic, "") },
    Spoiled("topic", .badTopic) { $0.set(.apnsTopic, "..") },
    Spoiled("no payload", .payloadEmpty) { $0.body = [] },
    Spoiled("large payload", .payloadTooLarge) {
      $0.body = [UInt8](repeating: 0x61, count: 6000)
    },
    Spoiled("payload", .badRequestPayload) { $0.body = Array("{}".utf8) },
    Spoiled("no device token", .missingDeviceToken) { $0.set(.path, "/3/device/") },
    Spoiled("device token", .badDeviceToken) { $0.set(.path, "/3/device/aaaa") },
    Spoiled("foreign device token", .badDeviceToken) { $0.claims = nil },
    Spoiled("topic of another team", .topicDisallowed) {
      $0.set(.apnsTopic, "net.foreign.app")
    },
    Spoiled("token of another topic", .deviceTokenNotForTopic) {
      $0.claims = World.claims(World.secondApp)
    },
  ]

  /// Every pair, not only adjacent ones: if both change the same field the earlier one stays.
  @Test("Of two faults the earlier one is reported", arguments: faults.indices)
  func pair(_ first: Int) throws {
    for second in first..<Self.faults.count {
      var request = Request()
      Self.faults[second].spoil(&request)
      Self.faults[first].spoil(&request)
      var driver = try Driver()
      #expect(
        driver.reason(request) == Self.faults[first].reason,
        "\(Self.faults[first].name) before \(Self.faults[second].name)")
    }
  }

  @Test("Of all faults at once the first one is reported")
  func all() throws {
    var request = Request()
    for fault in Self.faults.reversed() { fault.spoil(&request) }
    var driver = try Driver()
    #expect(driver.reason(request) == .headerListTooLarge)
  }

  static let single: [HeaderName] = [
    .method, .path, .scheme, .authority, .host, .authorization, .apnsID, .apnsPushType,
    .apnsExpiration, .apnsPriority, .apnsTopic, .apnsCollapseID,
  ]

  @Test("A repeated field is DuplicateHeaders", arguments: single)
  func doubled(_ name: HeaderName) throws {
    var request = Request()
    request.double(name)
    var driver = try Driver()
    #expect(driver.reason(request) == .duplicateHeaders)
  }

  static let spoiledValues: [(HeaderName, Reason?)] = [
    (.method, .methodNotAllowed), (.path, .badPath), (.scheme, nil), (.authority, nil),
    (.host, nil), (.authorization, .missingProviderToken), (.apnsID, .badMessageID),
    (.apnsPushType, .invalidPushType), (.apnsExpiration, .badExpirationDate),
    (.apnsPriority, .badPriority), (.apnsTopic, .badTopic), (.apnsCollapseID, .badCollapseID),
  ]

  @Test(
    "A value of 3,000 bytes that is not text gets the field's own reason", arguments: spoiledValues)
  func oversized(_ name: HeaderName, _ reason: Reason?) throws {
    var request = Request()
    request.set(name, [UInt8](repeating: 0xff, count: 3000))
    var driver = try Driver()
    #expect(driver.reason(request) == reason)
  }

  @Test("A byte that is not UTF-8 makes a valid value invalid", arguments: spoiledValues)
  func notUTF8(_ name: HeaderName, _ reason: Reason?) throws {
    let free: Set<HeaderName> = [.authorization, .apnsCollapseID]
    guard let reason, !free.contains(name) else { return }
    var request = Request()
    request.set(.apnsID, "123e4567-e89b-12d3-a456-4266554400a0")
    request.set(.apnsExpiration, "0")
    request.set(.apnsPriority, "10")
    let good = request.fields.first { $0.name == name }?.value ?? []
    request.set(name, good.dropLast() + [0x80])
    var driver = try Driver()
    #expect(driver.reason(request) == (name == .path ? .badDeviceToken : reason))
  }

  @Test("The id of the answer is known before any rejection")
  func messageID() {
    var request = Request()
    request.set(.path, "/")
    #expect(Admission.messageID(of: request.requestFields()) == .absent)
    request.set(.apnsID, "")
    #expect(Admission.messageID(of: request.requestFields()) == .malformed)
    request.set(.apnsID, "00000000-0000-0000-0000-00000000000A")
    #expect(
      Admission.messageID(of: request.requestFields())
        == .given(NotificationID(high: 0, low: 10)))
  }
}
