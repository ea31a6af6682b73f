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

  /// Who counts.
  enum Counter: Hashable {
    /// By its index.
    case worker(Int)
    /// The node that decides about another part of the devices.
    case part(Int)
  }

  private struct State {
    /// Nil until the counter has counted.
    var parts: [Counter: Part?] = [:]
    /// Grows with each change.
    var version: UInt64 = 0
  }

  private let state = Mutex(State())

  /// Somebody who is going to count.
  func expect(_ counter: Counter) { state.withLock { $0.parts[counter] = .some(nil) } }

  func set(_ part: Part, of counter: Counter) {
    state.withLock { state in
      state.parts[counter] = part
      state.version += 1
    }
  }

  /// Has no effect before the counter has counted.
  func change<Result: Sendable>(
    of counter: Counter, _ body: (inout Part) -> Result
  ) -> Result? {
    state.withLock { state in
      guard case .some(.some(var part)) = state.parts[counter] else { return nil }
      // Otherwise there are two of it, and a change copies all of it.
      state.parts[counter] = Part()
      defer { state.parts[counter] = part }
      state.version += 1
      return body(&part)
    }
  }

  /// Of all counters, and whether all of them have counted.
  func sum() -> (part: Part, isComplete: Bool) {
    state.withLock { state in
      var sum = Part()
      for case let part? in state.parts.values {
        sum.subscriptions.merge(part.subscriptions, uniquingKeysWith: +)
        sum.subscribers.merge(part.subscribers, uniquingKeysWith: +)
      }
      return (sum, state.parts.values.allSatisfy { $0 != nil })
    }
  }

  /// The sum if it may have changed since `version`, and the version that it has.
  func sum(after version: UInt64?) -> (part: Part, isComplete: Bool, version: UInt64)? {
    let now = state.withLock { $0.version }
    guard now != version else { return nil }
    let (part, isComplete) = sum()
    return (part, isComplete, now)
  }
}
