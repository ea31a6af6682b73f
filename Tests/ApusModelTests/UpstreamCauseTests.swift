import ApusModel
import Testing

@Suite("Why upstream did not accept a notification, on disk")
struct UpstreamCauseTests {
  @Test("Every reason has a code of its own, which leads back to it")
  func reasons() {
    let causes = Reason.allCases.map { UpstreamCause($0) }
    #expect(Set(causes).count == Reason.allCases.count)
    for (reason, cause) in zip(Reason.allCases, causes) {
      #expect(UpstreamCause(code: cause.code).text == "\(reason.text)")
    }
  }

  @Test("The codes stay what they are")
  func codes() {
    #expect(UpstreamCause(code: 1) == .otherReason)
    #expect(UpstreamCause(code: 2) == .notConnected)
    #expect(UpstreamCause(code: 3) == .noAnswer)
    #expect(UpstreamCause(.badCollapseID).code == 16)
    #expect(UpstreamCause(.badDeviceToken).code == 17)
    #expect(UpstreamCause(.unregistered).code == 41)
    #expect(UpstreamCause(.topicMismatch).code == 57)
    #expect(UpstreamCause(code: 200).text == "cause 200")
  }
}
