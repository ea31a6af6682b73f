import ApusModel

/// The changes of a group being written for one topic, push type and priority.
struct StoreForecast {
  let topic: TopicKey
  let environment: Environment
  let pushType: PushType?
  let priority: Priority
  /// The change in the number of stored notifications.
  var stored: Int64 = 0
  /// The number that will end as replaced.
  var replaced: Int64 = 0

  private init(_ facts: NotificationFacts) {
    topic = facts.topic
    environment = facts.environment
    pushType = facts.pushType
    priority = facts.priority
  }

  private func isOf(_ facts: NotificationFacts) -> Bool {
    topic == facts.topic && environment == facts.environment && pushType == facts.pushType
      && priority == facts.priority
  }

  /// Adds a notification's part. Most notifications of a group are alike, and like those that they replace, so only
  /// the newest forecast is compared.
  static func add(
    to forecasts: inout [StoreForecast], _ facts: NotificationFacts, stored: Int64,
    isReplaced: Bool
  ) {
    if forecasts.last?.isOf(facts) != true { forecasts.append(StoreForecast(facts)) }
    let last = forecasts.count - 1
    forecasts[last].stored += stored
    if isReplaced { forecasts[last].replaced += 1 }
  }
}

extension NotificationFacts {
  /// Whether both are in the same count of stored notifications.
  func isCounted(with other: NotificationFacts) -> Bool {
    topic == other.topic && environment == other.environment && pushType == other.pushType
      && priority == other.priority
  }
}
