/// Which commands run and which wait, in order of arrival: no more than a limit for each topic, and one for all.
struct CommandQueue: Sendable {
  private struct Item {
    var id: String
    var topic: String
  }

  var limit: Int
  private var waiting: [Item] = []
  private var running: [String: String] = [:]

  init(limit: Int) { self.limit = limit }

  var runningCount: Int { running.count }

  mutating func add(_ id: String, topic: String) { waiting.append(Item(id: id, topic: topic)) }

  /// The next notification whose command may start; it counts as running from now on. Nil if none may.
  ///
  /// - Parameter topicLimit: How many commands of a topic may run.
  mutating func next(topicLimit: (String) -> Int) -> String? {
    guard running.count < limit else { return nil }
    let index = waiting.firstIndex { item in
      running.values.count { $0 == item.topic } < topicLimit(item.topic)
    }
    guard let index else { return nil }
    let item = waiting.remove(at: index)
    running[item.id] = item.topic
    return item.id
  }

  mutating func ended(_ id: String) { running[id] = nil }
}
