package import ApusModel

extension [TopicCounters] {
  /// One for each topic and environment: the workers' parts added up.
  package func added() -> [TopicCounters] {
    var total: [TopicCounters] = []
    for part in self {
      if let index = total.firstIndex(where: {
        $0.topic == part.topic && $0.environment == part.environment
      }) {
        total[index].add(part)
      } else {
        total.append(part)
      }
    }
    return total
  }
}
