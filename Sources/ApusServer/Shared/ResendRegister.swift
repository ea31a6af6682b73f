import ApusCore
import ApusModel
import ApusStore
import Synchronization

/// The notifications that legacy senders will send again although they were accepted, of all workers; see
/// `RememberedSequences`.
final class ResendRegister: Sendable {
  private struct State {
    var sequences = RememberedSequences()
    /// Notifications that were matched, and whose rows are still there.
    var matched: [RememberedNotification.Place] = []
    /// Of remembered notifications that upstream has rejected.
    var refused: [NotificationID: BinaryStatus] = [:]

    mutating func takeRemovals() -> Removals {
      var removals = Removals(matched: matched)
      matched = []
      while let id = sequences.nextForgotten() { removals.sequences.append(id) }
      return removals
    }
  }

  private let state: Mutex<State>
  private let store: any DurableStore

  /// Reads what the store has.
  init(_ store: any DurableStore) throws(StoreError) {
    self.store = store
    var state = State()
    var rows: [RememberedNotification] = []
    let prefix = RememberedRecord.prefix
    try store.scan(.relay, prefix: prefix.span) { key, value in
      if let row = try? RememberedRecord.decode(key: key, value: value) { rows.append(row) }
      return true
    }
    for row in rows { state.sequences.restore(row) }
    self.state = Mutex(state)
  }

  // MARK: Matching

  /// Whether the connection's next notification has to be matched.
  func isMatching(_ matching: inout RememberedSequences.Matching) -> Bool {
    let copy = matching
    let (isMatching, changed) = state.withLock { state in
      var matching = copy
      return (state.sequences.isMatching(&matching), matching)
    }
    matching = changed
    return isMatching
  }

  /// A notification that is sent again.
  struct Resend {
    /// The id of the one that was accepted.
    var original: NotificationID
    /// Set if upstream has rejected that meanwhile.
    var status: BinaryStatus?
  }

  /// The connection's next notification; nil if it is a new one.
  func match(
    _ digest: RelayDigest, on matching: inout RememberedSequences.Matching, nowSeconds: Int64
  ) -> Resend? {
    let copy = matching
    let (resend, changed) = state.withLock { state -> (Resend?, RememberedSequences.Matching) in
      var matching = copy
      switch state.sequences.match(digest, on: &matching, nowSeconds: nowSeconds) {
      case .new: return (nil, matching)
      case .suppressed(let original, let place):
        state.matched.append(place)
        return (Resend(original: original, status: state.refused[original]), matching)
      }
    }
    matching = changed
    return resend
  }

  /// The connection ends.
  func end(_ matching: inout RememberedSequences.Matching) {
    let copy = matching
    matching = state.withLock { state in
      var matching = copy
      state.sequences.end(&matching)
      return matching
    }
  }

  // MARK: Remembering

  /// An error packet about the notification with the digest `refused` will end the connection. `completion` is called
  /// when that is on disk: the packet may go.
  func remember(
    _ entries: [RememberedSequences.Entry], after refused: RelayDigest,
    on matching: inout RememberedSequences.Matching, nowSeconds: Int64,
    _ completion: @escaping @Sendable (StoreError?) -> Void
  ) {
    let copy = matching
    var group = store.makeGroup()
    let (rows, removed, changed) = state.withLock { state in
      var matching = copy
      let id = state.sequences.remember(
        entries, after: refused, on: &matching, nowSeconds: nowSeconds)
      var rows: [RememberedNotification] = []
      if let id { state.sequences.forEachRow(of: id) { rows.append($0) } }
      return (rows, state.takeRemovals(), matching)
    }
    matching = changed
    Self.add(removed, to: &group)
    for row in rows {
      let key = RememberedRecord.key(of: row.place)
      let value = RememberedRecord.value(of: row)
      group.put(.relay, key: key.span, value: value.span)
    }
    store.commit(group, completion: completion)
  }

  /// Upstream has rejected a notification whose sender can no longer be told; if it sends it again, it will be.
  func noteRefused(_ id: NotificationID, _ status: BinaryStatus) {
    state.withLock { state in
      guard state.sequences.count > 0, state.refused.count < Limits.rememberedNotifications else {
        return
      }
      state.refused[id] = status
    }
  }

  /// Forgets what is over. Called each second.
  func secondPassed(nowSeconds: Int64) {
    let removed = state.withLock { state in
      state.sequences.expire(nowSeconds: nowSeconds)
      if state.sequences.count == 0 { state.refused = [:] }
      return state.takeRemovals()
    }
    guard !removed.isEmpty else { return }
    var group = store.makeGroup()
    Self.add(removed, to: &group)
    // What a failure leaves is removed when it has expired, after a start.
    store.commit(group) { _ in }
  }

  private struct Removals {
    var matched: [RememberedNotification.Place] = []
    var sequences: [RememberedSequences.ID] = []

    var isEmpty: Bool { matched.isEmpty && sequences.isEmpty }
  }

  private static func add(_ removals: Removals, to group: inout WriteGroup) {
    for place in removals.matched {
      let key = RememberedRecord.key(of: place)
      group.delete(.relay, key: key.span)
    }
    for id in removals.sequences {
      let (first, end) = RememberedRecord.keys(sender: id.sender, sequence: id.number)
      group.deleteRange(.relay, from: first.span, to: end.span)
    }
  }
}
