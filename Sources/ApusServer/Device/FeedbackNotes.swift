import ApusCore
import ApusModel
import ApusStore

/// Dead tokens of one worker's devices, waiting to be stored.
///
/// They are written with the commit groups, and no answer depends on them: a token lost in a crash is noted again at
/// the next push to it.
struct FeedbackNotes {
  private struct Key: Hashable {
    var list: FeedbackTopic
    var token: DeviceToken
  }

  private var gathering: [Key: Int64] = [:]
  private var sealed: [Key: Int64] = [:]
  /// Those of `sealed` that the store did not have yet.
  private var added: [(list: FeedbackTopic, row: FeedbackRow)] = []

  /// Time of the loop's clock until which no write is tried after a failure.
  private var pausedMilliseconds: UInt64 = 0
  private static let pauseMilliseconds: UInt64 = 1000

  /// The most tokens kept while the disk is stalled. Further ones are noted again at their next push.
  private static let limit = 65_536

  /// Whether no tokens wait to be written.
  var isEmpty: Bool { gathering.isEmpty }

  /// Whether tokens are to be written now. Writes pause after a failure: a store that rejects every write at once, as
  /// it does during recovery, would keep the worker busy.
  func isDue(loopMilliseconds: UInt64) -> Bool {
    !gathering.isEmpty && loopMilliseconds >= pausedMilliseconds
  }

  mutating func add(_ dead: DeadToken, token: DeviceToken) {
    let list = FeedbackTopic(topic: dead.claims.topic, environment: dead.claims.environment)
    add(Key(list: list, token: token), dead.sinceMilliseconds)
  }

  private mutating func add(_ key: Key, _ milliseconds: Int64) {
    guard gathering.count < Self.limit || gathering[key] != nil else { return }
    gathering[key] = max(gathering[key] ?? 0, milliseconds)
  }

  /// Adds the waiting tokens to a group, except those that are already listed with the same or a later time.
  mutating func seal(
    into group: inout WriteGroup, store: any DurableStore
  ) throws(StoreError) {
    sealed = gathering
    gathering.removeAll(keepingCapacity: true)
    added.removeAll(keepingCapacity: true)
    for (key, milliseconds) in sealed {
      let previous = try store.feedbackTime(of: key.token, in: key.list)
      if let previous, previous >= milliseconds { continue }
      let row = FeedbackRow(milliseconds: milliseconds, token: key.token)
      group.putFeedback(row, in: key.list, replacing: previous)
      added.append((key.list, row))
    }
  }

  /// Called when the group was written, or failed.
  ///
  /// - Returns: The tokens that are new in the store.
  mutating func committed(
    succeeded: Bool, loopMilliseconds: UInt64
  ) -> [(list: FeedbackTopic, row: FeedbackRow)] {
    let written = sealed
    sealed.removeAll()
    let added = added
    self.added.removeAll()
    if succeeded { return added }
    guard !written.isEmpty else { return [] }
    pausedMilliseconds = loopMilliseconds + Self.pauseMilliseconds
    for (key, milliseconds) in written { add(key, milliseconds) }
    return []
  }
}
