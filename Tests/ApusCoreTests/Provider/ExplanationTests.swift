import ApusCore
import ApusModel
import ApusWire
import Testing

struct ExplanationTests {
  static let all: [Explanation] =
    [
      .headerListTooLarge, .pathUnknown, .methodNotPost, .duplicate(.apnsTopic),
      .authorizationMissing, .authorizationNotBearer, .unknownKey(World.teamKey),
      .keyOfOtherTeam(key: World.teamKey, owner: World.team, issuer: World.otherTeam),
      .revokedKey(World.teamKey), .tokenInFuture(seconds: 4000), .tokenTooOld(seconds: 4000),
      .keyEnvironment(key: World.teamKey, listener: .production),
      .otherTeam(first: World.team, now: World.otherTeam),
      .otherKeyKind(first: World.teamKey, now: World.topicKey),
      .unrelatedKey(first: World.topicKey, now: World.unrelatedTopicKey),
      .tokenChangedTooSoon(secondsLeft: 12), .certificateRevoked, .certificateUnusable,
      .signature(key: World.teamKey, issuer: World.team),
      .certificateEnvironment(listener: .development), .malformed(.apnsID),
      .malformed(.apnsExpiration), .malformed(.apnsPriority), .malformed(.apnsPushType),
      .malformed(.apnsTopic), .collapseIDTooLong(byteCount: 65), .backgroundAtOnce,
      .topicMissing, .topicMissingOfSeveral, .payloadEmpty,
      .payloadTooLarge(byteCount: 5000, limit: 4096), .payloadNotJSON(.truncated),
      .payloadWithoutAPS, .deviceTokenMissing, .deviceTokenLength(digitCount: 6),
      .deviceTokenNotHex, .deviceTokenForeign, .deviceTokenOfProbe,
      .deviceTokenEnvironment(issued: .development),
      .topicUnknown,
      .topicOfOtherTeam(
        topic: TopicKey(app: World.foreignApp), owner: World.otherTeam, team: World.team),
      .topicNotOfKey(topic: TopicKey(app: World.app), key: World.topicKey),
      .topicNotOfCertificate(TopicKey(app: World.app, suffix: .voip)),
      .topicForOtherPushType(.voip),
      .deviceTokenOfOtherTopic(
        token: TopicKey(app: World.app), request: TopicKey(app: World.secondApp)),
      .inactiveToken(sinceMilliseconds: 5), .tooManyToDevice, .tooManyConnections,
    ] + TokenFault.allCases.map { .token($0) }

  private func text(_ explanation: Explanation, _ request: Request = Request()) -> String {
    explanation.text(fields: request.requestFields(), directory: World.directory())
  }

  @Test("Every rejection has its own explanation")
  func distinct() {
    let texts = Self.all.map { text($0) }
    for text in texts { #expect(text.count > 15 && !text.hasPrefix("rejected as"), "\(text)") }
    #expect(Set(texts).count == texts.count)
  }

  @Test("The most important explanations have these texts")
  func wording() {
    #expect(
      text(.keyOfOtherTeam(key: World.teamKey, owner: World.team, issuer: World.otherTeam))
        == "key KEYTEAM001 belongs to team TEAM000001; the provider token names team TEAM000002")
    #expect(
      text(.deviceTokenEnvironment(issued: .development))
        == "token is for the other environment: it was issued for development, this listener is for "
        + "production")
    #expect(
      text(
        .deviceTokenOfOtherTopic(
          token: TopicKey(app: World.app), request: TopicKey(app: World.secondApp, suffix: .voip))
      )
        == "the device token was issued for topic \"com.example.mail\"; the request is for "
        + "\"com.example.chat.voip\"")
    #expect(
      text(.keyEnvironment(key: World.developmentKey, listener: .production))
        == "key KEYDEV0001 is for development; this listener is for production")
  }

  @Test("No explanation reveals a token, and no value can break the line")
  func secrets() {
    var request = Request()
    request.set(.authorization, "bearer SECRET")
    for name in [HeaderName.apnsTopic, .apnsID, .method, .apnsPriority] {
      request.set(name, "evil\r\nINFO \u{1b}[0m\"" + String(repeating: "x", count: 500))
    }
    for path in ["/3/device/\(World.token.hex)", "/3/device/\(World.token.hex)/x"] {
      request.set(.path, path)
      for explanation in Self.all {
        let text = text(explanation, request)
        #expect(!text.contains("SECRET") && !text.contains(World.token.hex.prefix(9)))
        #expect(text.utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7f || $0 >= 0x80 })
        #expect(text.count < 350)
      }
    }
  }

  @Test("Each reason has the status of Apple's table, and 410 has its time")
  func rejections() {
    #expect(
      Refusal(.inactiveToken(sinceMilliseconds: 5)).rejection
        == Rejection(.unregistered, timestampMilliseconds: 5))
    #expect(Refusal(.topicUnknown).rejection == Rejection(.topicDisallowed))
    #expect(Refusal(.malformed(.apnsCollapseID)).reason == .badCollapseID)
  }
}
