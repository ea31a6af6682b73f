import ApusModel
import Testing

struct ReasonTests {
  /// "Handling notification responses from APNs", spelled by hand; `BadEnvironmentKeyInToken` as APNs sends it.
  static let reasons: [(Reason, UInt16, String)] = [
    (.badCollapseID, 400, "BadCollapseId"),
    (.badDeviceToken, 400, "BadDeviceToken"),
    (.badExpirationDate, 400, "BadExpirationDate"),
    (.badMessageID, 400, "BadMessageId"),
    (.badPriority, 400, "BadPriority"),
    (.badTopic, 400, "BadTopic"),
    (.deviceTokenNotForTopic, 400, "DeviceTokenNotForTopic"),
    (.duplicateHeaders, 400, "DuplicateHeaders"),
    (.idleTimeout, 400, "IdleTimeout"),
    (.invalidPushType, 400, "InvalidPushType"),
    (.missingDeviceToken, 400, "MissingDeviceToken"),
    (.missingTopic, 400, "MissingTopic"),
    (.payloadEmpty, 400, "PayloadEmpty"),
    (.topicDisallowed, 400, "TopicDisallowed"),
    (.badRequestPayload, 400, "BadRequestPayload"),
    (.badCertificate, 403, "BadCertificate"),
    (.badCertificateEnvironment, 403, "BadCertificateEnvironment"),
    (.expiredProviderToken, 403, "ExpiredProviderToken"),
    (.forbidden, 403, "Forbidden"),
    (.invalidProviderToken, 403, "InvalidProviderToken"),
    (.missingProviderToken, 403, "MissingProviderToken"),
    (.unrelatedKeyIDInToken, 403, "UnrelatedKeyIdInToken"),
    (.badEnvironmentKeyInToken, 403, "BadEnvironmentKeyInToken"),
    (.badPath, 404, "BadPath"),
    (.methodNotAllowed, 405, "MethodNotAllowed"),
    (.expiredToken, 410, "ExpiredToken"),
    (.unregistered, 410, "Unregistered"),
    (.payloadTooLarge, 413, "PayloadTooLarge"),
    (.tooManyProviderTokenUpdates, 429, "TooManyProviderTokenUpdates"),
    (.tooManyRequests, 429, "TooManyRequests"),
    (.headerListTooLarge, 431, "HeaderListTooLarge"),
    (.internalServerError, 500, "InternalServerError"),
    (.serviceUnavailable, 503, "ServiceUnavailable"),
    (.shutdown, 503, "Shutdown"),
    // "Handling error responses from APNs", for channels.
    (.badChannelID, 400, "BadChannelId"),
    (.badRequestParams, 400, "BadRequestParams"),
    (.cannotCreateChannelConfig, 400, "CannotCreateChannelConfig"),
    (.channelNotRegistered, 400, "ChannelNotRegistered"),
    (.featureNotEnabled, 400, "FeatureNotEnabled"),
    (.missingChannelID, 400, "MissingChannelId"),
    (.missingPushType, 400, "MissingPushType"),
    (.topicMismatch, 403, "TopicMismatch"),
  ]

  func find(_ text: String) -> Reason? {
    let bytes = Array(text.utf8)
    return Reason(text: bytes.span)
  }

  @Test("Every reason has Apple's text and status", arguments: reasons)
  func table(reason: Reason, status: UInt16, text: String) {
    #expect(reason.text.description == text)
    #expect("\(reason)" == text)
    #expect("\(Rejection(reason))" == "\(status) \(text)")
    #expect(reason.status == status)
    #expect(find(text) == reason)
  }

  @Test("The rejection of a dead token is printed with its time")
  func deadToken() {
    #expect(
      "\(Rejection(.unregistered, timestampMilliseconds: 1_700_000_000_000))"
        == "410 Unregistered, inactive since 1700000000000 (Unix milliseconds)")
  }

  @Test("The table contains every case")
  func complete() {
    #expect(Set(Self.reasons.map(\.0)) == Set(Reason.allCases))
  }

  @Test(
    "A text that is not in the table is not a reason",
    arguments: ["", "badtopic", "BadTopic ", "BadTopi", "BadEnvironmentKeyIdInToken", "Unknown"])
  func unknown(text: String) {
    #expect(find(text) == nil)
  }
}
