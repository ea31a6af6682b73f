import ApusModel

/// What a group that is being written makes of the notifications of one topic, push type and priority.
struct StoreForecast {
  let topic: TopicKey
  let environment: Environment
  let pushType: PushType?
  let priority: Priority
  /// How many more will be stored.
  var stored: Int64 = 0
  /// How many end as replaced.
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

  /// Adds a notification's part. Of a group most are alike, and alike to those that they replace: so the newest
  /// forecast is looked at, and not all.
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
  /// Whether the numbers of stored notifications have both in the same place.
  func isCounted(with other: NotificationFacts) -> Bool {
    topic == other.topic && environment == other.environment && pushType == other.pushType
      && priority == other.priority
  }
}
