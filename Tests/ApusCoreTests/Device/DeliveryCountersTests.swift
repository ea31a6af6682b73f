import ApusModel
import Testing

@testable import ApusCore

struct DeliveryCountersTests {
  func facts(
    _ topic: TopicKey, _ environment: Environment = .production, type: PushType? = .alert,
    priority: Priority = .immediate
  ) -> NotificationFacts {
    NotificationFacts(
      order: 1, id: NotificationID(high: 1, low: 2), uniqueID: NotificationID(high: 3, low: 4),
      device: DeviceID(5), topic: topic, environment: environment, tokenPrefix: 6, pushType: type,
      priority: priority, interface: .http2)
  }

  @Test("Every state, push type, priority, topic and environment has a cell of its own")
  func cells() throws {
    var counters = DeliveryCounters()
    var expected: [String: UInt64] = [:]
    let topics = [
      TopicKey(app: AppID(1)), TopicKey(app: AppID(1), suffix: .voip), TopicKey(app: AppID(256)),
    ]
    var number: UInt64 = 0
    for topic in topics {
      for environment in Environment.allCases {
        for state in DeliveryState.allCases {
          for type in [nil] + PushType.allCases.map(Optional.some) {
            for priority in Priority.allCases {
              number += 1
              let times = number % 3
              for _ in 0..<times {
                counters.count(state, facts(topic, environment, type: type, priority: priority))
              }
              expected["\(topic)\(environment)\(state)\(String(describing: type))\(priority)"] =
                times
            }
          }
        }
      }
    }
    let snapshot = counters.snapshot()
    #expect(snapshot.count == topics.count * 2)
    for row in snapshot {
      for state in DeliveryState.allCases {
        for type in [nil] + PushType.allCases.map(Optional.some) {
          for priority in Priority.allCases {
            let key =
              "\(row.topic)\(row.environment)\(state)\(String(describing: type))\(priority)"
            #expect(row[state, type, priority] == expected[key])
          }
        }
      }
      #expect(row.isBalanced)
    }
    let total: UInt64 = expected.values.reduce(0, +)
    #expect(counters.states.reduce(0, +) == total)
  }

  @Test("A thousand topics are distinguished")
  func manyTopics() {
    var counters = DeliveryCounters()
    for round in 0..<2 {
      for app in 0..<1000 as Range<UInt32> where round == 0 || app.isMultiple(of: 2) {
        counters.count(.received, facts(TopicKey(app: AppID(app &* 65_536 &+ app))))
      }
    }
    let snapshot = counters.snapshot()
    #expect(snapshot.count == 1000)
    for row in snapshot {
      #expect(row.accepted == (row.topic.app.rawValue.isMultiple(of: 2) ? 2 : 1))
      #expect(row.pending == Int64(row.accepted))
    }
  }

  /// What a run that crashes now leaves in the store.
  private func left(_ counters: inout DeliveryCounters) throws -> TopicCounters {
    var left: [TopicCounters] = []
    counters.takeChanged { left.append($0) }
    try #require(left.count == 1 && !counters.hasChanged)
    return left[0]
  }

  @Test("The counters in the store tell stored notifications from those that are only in memory")
  func durable() throws {
    let facts = facts(TopicKey(app: AppID(1)))
    var counters = DeliveryCounters()
    for _ in 0..<5 { counters.count(.received, facts) }
    counters.countStored(facts, 1)
    counters.count(.delivered, facts)
    counters.count(.sent, facts)
    let row = try left(&counters)
    #expect(row.accepted == 5 && row.pending == 4 && row.isBalanced)
    #expect(row.unstoredCount == 3)
    #expect(row[.sent] == 1 && row[.delivered] == 1)
    // The next run continues from there.
    var next = DeliveryCounters()
    next.restore(row)
    next.restore(row)
    #expect(next.storedCount == 2)
    #expect(next.snapshot().first?.accepted == 10)
    #expect(next.snapshot().first?.isBalanced == true)
    #expect(next.states[Int(DeliveryState.delivered.rawValue)] == 2)
    #expect(!next.hasChanged)
    next.markAllChanged()
    #expect(next.hasChanged)
  }

  @Test("What a crashed run had only in memory counts as discarded, unless a journal has its end")
  func endUnstored() throws {
    let facts = facts(TopicKey(app: AppID(1)))
    var counters = DeliveryCounters()
    for _ in 0..<4 { counters.count(.received, facts) }
    counters.countStored(facts, 1)
    var next = DeliveryCounters()
    next.restore(try left(&counters))
    // From its journal: the end of one of the three, and the acceptance of a further one.
    next.count(.delivered, facts)
    next.count(.received, facts)
    next.endUnstored()
    let row = try left(&next)
    #expect(row.accepted == 5 && row[.delivered] == 1 && row[.discardedNotStored] == 3)
    #expect(row.pending == 1 && row.unstoredCount == 0 && row.isBalanced)
    next.endUnstored()
    #expect(!next.hasChanged)
  }

  @Test("An end whose acceptance an earlier version did not count brings it")
  func endWithoutAcceptance() throws {
    var next = DeliveryCounters()
    next.count(.delivered, facts(TopicKey(app: AppID(1))))
    next.endUnstored()
    let row = try left(&next)
    #expect(row.accepted == 1 && row[.delivered] == 1 && row.pending == 0 && row.isBalanced)
  }
}
