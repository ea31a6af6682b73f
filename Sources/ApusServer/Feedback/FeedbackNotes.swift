import ApusCore
import ApusModel
import ApusStore

/// Dead tokens of one worker's devices on their way into the store.
///
/// They go with the commit groups, and nobody waits for them: what is lost with the service is noted again at the next
/// push to the same token.
struct FeedbackNotes {
  private struct Key: Hashable {
    var list: FeedbackTopic
    var token: DeviceToken
  }

  private var gathering: [Key: Int64] = [:]
  private var sealed: [Key: Int64] = [:]

  /// Time of the loop's clock before which a store that failed is not asked again.
  private var pausedMilliseconds: UInt64 = 0
  private static let pauseMilliseconds: UInt64 = 1000

  /// What gathers while a disk stands still; more is left to the next push.
  private static let limit = 65_536

  /// Whether nothing is to be written.
  var isEmpty: Bool { gathering.isEmpty }

  /// Whether something is to be written now. Nobody waits for it: a store that refuses everything at once, as it does
  /// while it recovers, would keep the worker busy.
  func isDue(loopMilliseconds: UInt64) -> Bool {
    !gathering.isEmpty && loopMilliseconds >= pausedMilliseconds
  }

  mutating func note(_ dead: DeadToken, token: DeviceToken) {
    let list = FeedbackTopic(topic: dead.claims.topic, environment: dead.claims.environment)
    note(Key(list: list, token: token), dead.sinceMilliseconds)
  }

  private mutating func note(_ key: Key, _ milliseconds: Int64) {
    guard gathering.count < Self.limit || gathering[key] != nil else { return }
    gathering[key] = max(gathering[key] ?? 0, milliseconds)
  }

  /// Adds what gathered to a group. A token that stands in its list with the same time already is not written again.
  mutating func seal(
    into group: inout WriteGroup, store: any DurableStore
  ) throws(StoreError) {
    sealed = gathering
    gathering.removeAll(keepingCapacity: true)
    for (key, milliseconds) in sealed {
      let previous = try store.feedbackTime(of: key.token, in: key.list)
      if let previous, previous >= milliseconds { continue }
      group.putFeedback(
        FeedbackRow(milliseconds: milliseconds, token: key.token), in: key.list,
        replacing: previous)
    }
  }

  /// The group was written, or could not be.
  mutating func committed(succeeded: Bool, loopMilliseconds: UInt64) {
    let written = sealed
    sealed.removeAll()
    guard !succeeded, !written.isEmpty else { return }
    pausedMilliseconds = loopMilliseconds + Self.pauseMilliseconds
    for (key, milliseconds) in written { note(key, milliseconds) }
  }
}
