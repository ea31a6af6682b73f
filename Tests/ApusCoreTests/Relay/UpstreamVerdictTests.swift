import ApusCore
import ApusModel
import Testing

@Suite("What answers from upstream mean")
struct UpstreamVerdictTests {
  /// Of an answer with timestamp 1,700,000,000,123 and `retry-after` 7.
  static let verdicts: [(Reason, UpstreamVerdict)] = [
    (.badDeviceToken, .badToken),
    (.deviceTokenNotForTopic, .badToken),
    (.unregistered, .dead(sinceMilliseconds: 1_700_000_000_123)),
    (.expiredToken, .dead(sinceMilliseconds: 1_700_000_000_123)),
    (.missingDeviceToken, .refused(.missingDeviceToken)),
    (.payloadEmpty, .refused(.missingPayload)),
    (.payloadTooLarge, .refused(.invalidPayloadSize)),
    (.badCollapseID, .refused(.processingError)),
    (.badExpirationDate, .refused(.processingError)),
    (.badMessageID, .refused(.processingError)),
    (.badPriority, .refused(.processingError)),
    (.invalidPushType, .refused(.processingError)),
    (.badRequestPayload, .refused(.processingError)),
    (.badCertificate, .misconfigured),
    (.badCertificateEnvironment, .misconfigured),
    (.expiredProviderToken, .misconfigured),
    (.forbidden, .misconfigured),
    (.invalidProviderToken, .misconfigured),
    (.missingProviderToken, .misconfigured),
    (.unrelatedKeyIDInToken, .misconfigured),
    (.badEnvironmentKeyInToken, .misconfigured),
    (.topicMismatch, .misconfigured),
    (.badTopic, .misconfigured),
    (.missingTopic, .misconfigured),
    (.topicDisallowed, .misconfigured),
    (.badPath, .misconfigured),
    (.methodNotAllowed, .misconfigured),
    (.duplicateHeaders, .misconfigured),
    (.headerListTooLarge, .misconfigured),
    (.badChannelID, .misconfigured),
    (.badRequestParams, .misconfigured),
    (.cannotCreateChannelConfig, .misconfigured),
    (.channelNotRegistered, .misconfigured),
    (.featureNotEnabled, .misconfigured),
    (.missingChannelID, .misconfigured),
    (.missingPushType, .misconfigured),
    (.tooManyRequests, .later(afterSeconds: 7, isForAll: false)),
    (.idleTimeout, .later(afterSeconds: 7, isForAll: false)),
    (.shutdown, .later(afterSeconds: 7, isForAll: false)),
    (.tooManyProviderTokenUpdates, .later(afterSeconds: 7, isForAll: true)),
    (.internalServerError, .later(afterSeconds: 7, isForAll: true)),
    (.serviceUnavailable, .later(afterSeconds: 7, isForAll: true)),
  ]

  private func verdict(
    _ status: UInt16, _ reason: String, since: Int64? = nil, retryAfter: Int? = nil
  ) -> UpstreamVerdict {
    UpstreamVerdict(
      .rejected(
        UpstreamRejection(
          status: status, reason: reason, timestampMilliseconds: since,
          retryAfterSeconds: retryAfter)))
  }

  @Test("Each reason has its verdict", arguments: verdicts)
  func reasons(reason: Reason, expected: UpstreamVerdict) {
    let text = reason.text.description
    let found = verdict(reason.status, text, since: 1_700_000_000_123, retryAfter: 7)
    #expect(found == expected)
  }

  @Test("No reason is left out, or listed twice")
  func complete() {
    #expect(Set(Self.verdicts.map(\.0)) == Set(Reason.allCases))
    #expect(Self.verdicts.count == Reason.allCases.count)
  }

  @Test("A known reason decides whatever the status is")
  func reasonFirst() {
    #expect(verdict(500, Reason.badDeviceToken.text.description) == .badToken)
    #expect(
      verdict(400, Reason.serviceUnavailable.text.description)
        == .later(afterSeconds: nil, isForAll: true))
  }

  @Test(
    "Without a known reason the status decides",
    arguments: [
      (400, .refused(.processingError)), (410, .dead(sinceMilliseconds: 5)),
      (413, .refused(.invalidPayloadSize)),
      (408, .later(afterSeconds: 7, isForAll: true)),
      (429, .later(afterSeconds: 7, isForAll: true)),
      (500, .later(afterSeconds: 7, isForAll: true)),
      (503, .later(afterSeconds: 7, isForAll: true)),
      (599, .later(afterSeconds: 7, isForAll: true)),
      (204, .misconfigured), (302, .misconfigured), (401, .misconfigured),
      (403, .misconfigured), (404, .misconfigured), (405, .misconfigured),
      (418, .misconfigured), (431, .misconfigured),
    ] as [(UInt16, UpstreamVerdict)])
  func statuses(status: UInt16, expected: UpstreamVerdict) {
    for reason in ["", "NewReason", "baddevicetoken"] {
      #expect(verdict(status, reason, since: 5, retryAfter: 7) == expected)
    }
  }

  @Test("An impossible time of death is no time")
  func timestamps() {
    let reason = Reason.unregistered.text.description
    #expect(verdict(410, reason) == .dead(sinceMilliseconds: nil))
    #expect(verdict(410, reason, since: -1) == .dead(sinceMilliseconds: nil))
    #expect(verdict(410, reason, since: 0) == .dead(sinceMilliseconds: 0))
  }

  @Test(
    "A pause is between nothing and an hour",
    arguments: [
      (-1, 0), (0, 0), (3600, 3600), (3601, 3600), (.max, 3600), (.min, 0),
    ] as [(Int, Int)])
  func pauses(seconds: Int, expected: Int) {
    let found = verdict(503, "", retryAfter: seconds)
    #expect(found == .later(afterSeconds: expected, isForAll: true))
  }

  @Test("An acceptance keeps its unique id, and no answer says whether a retry may show twice")
  func others() {
    #expect(UpstreamVerdict(.accepted(uniqueID: "A1")) == .accepted(uniqueID: "A1"))
    #expect(UpstreamVerdict(.unknown(mayHaveArrived: true)) == .again(mayDuplicate: true))
    #expect(UpstreamVerdict(.unknown(mayHaveArrived: false)) == .again(mayDuplicate: false))
  }
}
