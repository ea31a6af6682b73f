import ApusCore
package import ApusModel
import ApusStore
import ApusThread

/// Why a channel was not created or deleted.
package enum ChannelChangeFailure: Error, Sendable {
  /// Its app has `Limits.channelsPerApp` in the environment.
  case tooMany
  /// What the store said, or that it said nothing, for people.
  case store(String)
}

extension AdministeredService {
  /// Creates a channel, and waits until it is durable.
  package func create(_ channel: Channel) throws(ChannelChangeFailure) {
    let outcome = Monitor<StoreError??>(nil)
    do throws(Refusal) {
      try create(channel) { error in outcome.notify { $0 = .some(error) } }
    } catch {
      throw .tooMany
    }
    try Self.wait(outcome)
  }

  /// Deletes a channel, likewise.
  package func delete(_ channel: Channel) throws(ChannelChangeFailure) {
    let outcome = Monitor<StoreError??>(nil)
    delete(channel) { error in outcome.notify { $0 = .some(error) } }
    try Self.wait(outcome)
  }

  private static func wait(_ outcome: Monitor<StoreError??>) throws(ChannelChangeFailure) {
    guard let error = outcome.take(withinMilliseconds: Int64(Limits.answerSeconds) * 1000) else {
      throw .store("the store did not respond within \(Limits.answerSeconds) s")
    }
    if let error { throw .store("the store refused: \(error)") }
  }
}
