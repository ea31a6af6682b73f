import ApusCore
import ApusModel
import Testing

struct RejectionCountersTests {
  @Test("Each reason is counted separately, and a change is returned once")
  func counting() {
    var counters = RejectionCounters()
    counters.restore(5, of: .badTopic)
    #expect(!counters.hasChanged)
    for reason in [Reason.badTopic, .unregistered, .badTopic] { counters.count(reason) }
    #expect(counters[.badTopic] == 7 && counters[.unregistered] == 1 && counters[.forbidden] == 0)
    var taken: [Reason: UInt64] = [:]
    counters.takeChanged { taken[$0] = $1 }
    #expect(taken == [.badTopic: 7, .unregistered: 1])
    #expect(!counters.hasChanged)
    counters.takeChanged { reason, _ in Issue.record("\(reason) did not change") }
    counters.markAllChanged()
    taken = [:]
    counters.takeChanged { taken[$0] = $1 }
    #expect(taken == [.badTopic: 7, .unregistered: 1])
  }
}
