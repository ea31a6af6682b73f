import ApusModel
import Testing

struct TopicCountersTests {
  /// Two alerts of priority 10, one of which is pending, and one without a push type of priority 5, which expired.
  static var counters: TopicCounters {
    var counters = TopicCounters(topic: TopicKey(app: AppID(1)), environment: .production)
    func set(_ state: DeliveryState, _ type: PushType?, _ priority: Priority, _ number: UInt64) {
      counters.cells[TopicCounters.cell(state, pushType: type, priority: priority)] = number
    }
    set(.received, .alert, .immediate, 2)
    set(.delivered, .alert, .immediate, 1)
    set(.received, nil, .powerSaving, 1)
    set(.expired, nil, .powerSaving, 1)
    counters.pending = 1
    return counters
  }

  @Test("Each state, push type and priority has a cell of its own")
  func cells() {
    var seen: Set<Int> = []
    for state in DeliveryState.allCases {
      for type in [nil] + PushType.allCases.map(Optional.some) {
        for priority in Priority.allCases {
          let cell = TopicCounters.cell(state, pushType: type, priority: priority)
          #expect(seen.insert(cell).inserted, "\(state) \(String(describing: type)) \(priority)")
        }
      }
    }
    #expect(seen == Set(0..<TopicCounters.cellCount))
  }

  @Test("The part of a push type is balanced like the whole, and the parts add up to the whole")
  func pushTypes() {
    let counters = Self.counters
    #expect(counters.isBalanced)
    let alerts = counters.part(of: PushType.alert)
    #expect((alerts.accepted, alerts.ended, alerts.pending) == (2, 1, 1))
    let others = counters.part(of: nil as PushType?)
    #expect((others.accepted, others.ended, others.pending) == (1, 1, 0))
    var sum = TopicCounters(topic: counters.topic, environment: counters.environment)
    for type in [nil] + PushType.allCases.map(Optional.some) {
      let part = counters.part(of: type)
      #expect(part.isBalanced)
      sum.add(part)
    }
    #expect(sum == counters)
  }

  @Test("The same holds for priorities")
  func priorities() {
    let counters = Self.counters
    #expect(counters.part(of: .immediate)[.delivered] == 1)
    #expect(counters.part(of: .powerSaving)[.expired] == 1)
    #expect(counters.part(of: .whenActive).accepted == 0)
    var sum = TopicCounters(topic: counters.topic, environment: counters.environment)
    for priority in Priority.allCases { sum.add(counters.part(of: priority)) }
    #expect(sum == counters)
  }
}
