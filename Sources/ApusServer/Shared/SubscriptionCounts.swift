import ApusAdmin
import ApusModel
import ApusStore
import Synchronization

/// How many subscriptions and subscribers there are, of all devices, connected or not. Each worker counts its devices
/// (`SubscriptionCounter`).
final class SubscriptionCounts: Sendable {
  /// The count of one worker.
  struct Part: Sendable, Equatable {
    /// By the channel's number.
    var subscriptions: [UInt32: Int] = [:]
    /// Devices with one or more subscriptions.
    var subscribers: [ChannelCensus.App: Int] = [:]

    /// Adds a device's subscriptions to channels that exist.
    mutating func add(_ record: SubscriptionRecord, _ register: ChannelRegister) {
      change(by: 1, record, register)
    }

    mutating func replace(
      _ old: SubscriptionRecord, by new: SubscriptionRecord, _ register: ChannelRegister
    ) {
      change(by: -1, old, register)
      change(by: 1, new, register)
    }

    private mutating func change(
      by difference: Int, _ record: SubscriptionRecord, _ register: ChannelRegister
    ) {
      var apps: Set<ChannelCensus.App> = []
      for subscription in record.subscriptions {
        guard let entry = register.entry(subscription.channel) else { continue }
        Self.add(difference, to: &subscriptions[entry.number])
        let app = ChannelCensus.App(
          app: entry.channel.app, environment: entry.channel.environment)
        if apps.insert(app).inserted { Self.add(difference, to: &subscribers[app]) }
      }
    }

    private static func add(_ difference: Int, to count: inout Int?) {
      let sum = (count ?? 0) + difference
      count = sum == 0 ? nil : sum
    }
  }

  /// By the worker's index; nil until it has counted.
  private let parts = Mutex<[Int: Part?]>([:])

  /// A worker that is going to count.
  func expect(worker: Int) { parts.withLock { $0[worker] = .some(nil) } }

  func set(_ part: Part, of worker: Int) { parts.withLock { $0[worker] = part } }

  /// Has no effect before the worker has counted.
  func change<Result: Sendable>(
    of worker: Int, _ body: (inout Part) -> Result
  ) -> Result? {
    parts.withLock { parts in
      guard case .some(.some(var part)) = parts[worker] else { return nil }
      // Otherwise there are two of it, and a change copies all of it.
      parts[worker] = Part()
      defer { parts[worker] = part }
      return body(&part)
    }
  }

  /// Of all workers, and whether all of them have counted.
  func sum() -> (part: Part, isComplete: Bool) {
    parts.withLock { parts in
      var sum = Part()
      for case let part? in parts.values {
        sum.subscriptions.merge(part.subscriptions, uniquingKeysWith: +)
        sum.subscribers.merge(part.subscribers, uniquingKeysWith: +)
      }
      return (sum, parts.values.allSatisfy { $0 != nil })
    }
  }
}
