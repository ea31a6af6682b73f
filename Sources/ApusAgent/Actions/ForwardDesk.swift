/// A program that gets notifications.
protocol Subscriber: AnyObject {
  func deliver(_ arrival: Arrival)
}

/// Which program gets which topic's notifications: the one that subscribed last. What it has not acknowledged when it
/// goes is offered to the next one.
final class ForwardDesk {
  private var subscribers: [String: [any Subscriber]] = [:]
  /// Unacknowledged notifications, in order of arrival.
  private var open: [Arrival] = []

  func subscriber(of topic: String) -> (any Subscriber)? { subscribers[topic]?.last }

  func subscribe(_ subscriber: any Subscriber, to topic: String) {
    subscribers[topic, default: []].removeAll { $0 === subscriber }
    subscribers[topic, default: []].append(subscriber)
    for arrival in open where arrival.topic == topic { subscriber.deliver(arrival) }
  }

  func unsubscribe(_ subscriber: any Subscriber, from topic: String) {
    let wasCurrent = subscribers[topic]?.last === subscriber
    subscribers[topic]?.removeAll { $0 === subscriber }
    if subscribers[topic]?.isEmpty == true { subscribers[topic] = nil }
    guard wasCurrent, let next = self.subscriber(of: topic) else { return }
    for arrival in open where arrival.topic == topic { next.deliver(arrival) }
  }

  /// The program has gone.
  func remove(_ subscriber: any Subscriber) {
    for topic in Array(subscribers.keys) { unsubscribe(subscriber, from: topic) }
  }

  func offer(_ arrival: Arrival) {
    open.append(arrival)
    subscriber(of: arrival.topic)?.deliver(arrival)
  }

  /// The notification was acknowledged.
  func withdraw(_ key: String) { open.removeAll { $0.key == key } }
}
