import ApusAdmin
package import ApusCore
package import ApusModel

// What a service counts, over all of its workers.

extension Service {
  /// The counters of each topic and environment, summed over all workers, since the data directory was created. The
  /// workers are asked one after the other: while notifications flow, only the counters of each worker are consistent.
  package func topicCounters() -> [TopicCounters] {
    running.topicCounters()
  }

  /// Connections of clients, over all workers.
  package func connectionCount() -> Int {
    everyone.reduce(0) { sum, worker in
      sum + worker.ask { $0.connections.count - $0.connections.counts[.link, .production] }
    }
  }

  /// What notifications take in memory, as far as the workers' turns have ended.
  package func notificationBytes() -> Int {
    workers.reduce(0) { $0 + $1.ask { $0.devices.shard.memory.ownBytes } }
  }

  /// How many devices are dormant.
  package func dormancy() -> Dormancy {
    workers.reduce(Dormancy()) { $0 + $1.ask { $0.dormant.dormancy } }
  }

  /// How often each state of delivery was reached, over all workers.
  package func counts() -> [DeliveryState: UInt64] {
    var total: [DeliveryState: UInt64] = [:]
    for worker in workers {
      let counts = worker.ask { $0.devices.counts }
      for state in DeliveryState.allCases {
        total[state, default: 0] += counts[Int(state.rawValue)]
      }
    }
    return total
  }
}
