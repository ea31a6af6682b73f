import ApusCore
import ApusModel
import Testing

@Suite("What upstream answered, counted")
struct UpstreamAnswersTests {
  private func rejected(_ status: UInt16, _ reason: String) -> UpstreamAnswer {
    .rejected(UpstreamRejection(status: status, reason: reason))
  }

  @Test("By reason, and the time of those that were answered")
  func counted() {
    var answers = UpstreamAnswers()
    _ = answers.add(.accepted(uniqueID: nil), afterMilliseconds: 3)
    _ = answers.add(rejected(400, "BadDeviceToken"), afterMilliseconds: 5)
    _ = answers.add(rejected(400, "BadDeviceToken"), afterMilliseconds: 5)
    _ = answers.add(rejected(400, "SomethingNew"), afterMilliseconds: 5)
    _ = answers.add(.unknown(mayHaveArrived: true), afterMilliseconds: 20_000)
    _ = answers.add(.unknown(mayHaveArrived: false), afterMilliseconds: 20_000)
    #expect(answers.accepted == 1)
    #expect(
      answers.others == [
        UpstreamCause(.badDeviceToken): 2, .otherReason: 1, .noAnswer: 1, .notConnected: 1,
      ])
    #expect(answers.latency.count == 4)
    #expect(answers.latency.sumMilliseconds == 18)
  }

  @Test("A failing upstream is reported once, until it judges notifications again")
  func failing() {
    var answers = UpstreamAnswers()
    func add(_ answer: UpstreamAnswer) -> Bool { answers.add(answer, afterMilliseconds: 1) }
    var reports = [add(.accepted(uniqueID: nil))]
    reports.append(add(rejected(403, "InvalidProviderToken")))
    reports.append(add(rejected(400, "TopicDisallowed")))
    #expect(answers.isFailing)
    reports.append(add(rejected(503, "ServiceUnavailable")))
    reports.append(add(.unknown(mayHaveArrived: false)))
    #expect(answers.isFailing)
    reports.append(add(rejected(410, "Unregistered")))
    #expect(!answers.isFailing)
    reports.append(add(rejected(403, "ExpiredProviderToken")))
    #expect(reports == [false, true, false, false, false, false, true])
  }
}
