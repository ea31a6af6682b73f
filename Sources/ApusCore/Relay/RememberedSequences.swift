package import ApusModel

/// The notifications that legacy senders will send again although they were accepted.
///
/// An error packet for notification k tells a sender that everything after k was discarded. A gateway that judges k
/// only when upstream answers has accepted what follows by then: it is in the spool, or upstream. Those notifications
/// are remembered in their order; when the sender sends them again, they are silently accepted, once, under their
/// original ids.
///
/// **Which connection.** Each failed connection leaves a sequence of its own; a sender, identified by its certificate
/// and environment, may have several connections. The first notification of a connection selects the oldest sequence of
/// its sender that begins with it: libraries such as java-apns and PyAPNs resend at once, on a new connection and in
/// order, from k + 1 on. A first notification equal to k selects the sequence as well: it is judged again, and k + 1 is
/// expected next. A sequence belongs to one connection at a time, so two connections with the same content select two
/// sequences.
///
/// **How far.** From there on each notification must be the next of the sequence. The first one that is not ends the
/// matching on that connection for good, so that a later push with the same content is not swallowed. What is left of
/// the sequence is free for the next connection, also when a connection ends half-way. An error packet on the
/// connection itself makes one new sequence: of what followed on it, and of what was left of the old one.
///
/// **What stays ambiguous.** If a sender never resends, a push of the next ten minutes with the token, payload and
/// expiration of an expected one is taken for the resend if it is the first of a connection: its device gets one
/// notification instead of two. Duplicates remain if a sender spreads its resends over several connections or mixes
/// them with other notifications, resends on a connection that was already in use, computes a new expiration, waits for
/// more than ten minutes, or resends more than is remembered.
///
/// **Bounds.** `Limits.rememberedPerSequence` notifications: later ones of a longer sequence are forgotten. Of a sender
/// with more than `Limits.rememberedSequencesPerSender` sequences, and beyond `Limits.rememberedNotifications` of the
/// sender with the most notifications, the oldest sequence is forgotten. What is forgotten is sent upstream again.
///
/// **Rows.** The caller writes the rows of a new sequence (``forEachRow(of:_:)``) with the group that makes its
/// notifications durable, deletes the row of each match, and after each verb all rows of those sequences that
/// ``nextForgotten()`` names. After a start it restores the rows in the order of their keys. If a crash comes before a
/// row is deleted, its notification is expected once more.
package struct RememberedSequences: Sendable {
  /// A notification that was accepted after the refused one.
  package struct Entry: Sendable, Hashable {
    /// Of device token, payload and expiration only: senders use other identifiers and commands for resends.
    package var digest: RelayDigest
    /// The id under which it was first accepted.
    package var original: NotificationID

    package init(digest: RelayDigest, original: NotificationID) {
      self.digest = digest
      self.original = original
    }
  }

  /// Identifies a sequence. Numbers are not reused while the store has rows of them.
  package struct ID: Sendable, Hashable {
    package var sender: RelayDigest
    package var number: UInt64
  }

  /// What a connection has to do with the sequences of its sender. The connection keeps it.
  package struct Matching: Sendable {
    fileprivate enum State: Sendable {
      /// No notification has come.
      case first
      case following(number: UInt64)
      case over
    }

    fileprivate let sender: RelayDigest
    fileprivate var state = State.first

    /// A connection begins.
    ///
    /// - Parameter sender: Of its certificate and environment.
    package init(sender: RelayDigest) { self.sender = sender }
  }

  package enum Match: Sendable, Hashable {
    /// A resend of that notification: accept it without doing anything, and delete the row at `place`. If the
    /// original was refused meanwhile, refuse it with the same status.
    case suppressed(original: NotificationID, place: RememberedNotification.Place)
    case new
  }

  private struct Sequence: Sendable {
    let number: UInt64
    let expiresSeconds: Int64
    /// Nil if the row was lost.
    var refused: RelayDigest?
    var entries: [Entry] = []
    /// The index of the first entry in the store.
    var firstIndex: UInt32 = 1
    /// Entries that were matched.
    var head = 0
    var isTaken = false

    var next: Entry? { head < entries.count ? entries[head] : nil }

    /// Whether its time has come and is not over. A clock that was set back ends it as well: a notification twice is
    /// better than one swallowed.
    func isCurrent(_ nowSeconds: Int64) -> Bool {
      nowSeconds < expiresSeconds && nowSeconds > expiresSeconds - 2 * Limits.rememberedSeconds
    }

    /// True if the row is one more entry.
    mutating func restore(_ row: RememberedNotification) -> Bool {
      guard let original = row.original else {
        refused = row.digest
        return false
      }
      if entries.isEmpty { firstIndex = row.place.index }
      guard row.place.index == firstIndex &+ UInt32(entries.count) else { return false }
      entries.append(Entry(digest: row.digest, original: original))
      return true
    }
  }

  /// By sender, the oldest first. No list is empty.
  private var senders: [RelayDigest: [Sequence]] = [:]
  private var forgotten: [ID] = []
  private var nextNumber: UInt64 = 1
  private let capacity: Int
  /// Notifications that are remembered, with those already matched of sequences that are not finished.
  package private(set) var count = 0

  /// - Parameter capacity: Notifications in all sequences; at least those of one.
  package init(capacity: Int = Limits.rememberedNotifications) {
    precondition(capacity >= Limits.rememberedPerSequence, "no room for a sequence")
    self.capacity = capacity
  }

  // MARK: Matching

  /// Whether the connection's next notification has to be matched. Ask before computing its digest: false for good once
  /// it is false.
  package mutating func isMatching(_ matching: inout Matching) -> Bool {
    switch matching.state {
    case .over: return false
    case .following: return true
    case .first:
      if senders[matching.sender] == nil { matching.state = .over }
      return senders[matching.sender] != nil
    }
  }

  /// The connection's next notification.
  package mutating func match(
    _ digest: RelayDigest, on matching: inout Matching, nowSeconds: Int64
  ) -> Match {
    switch matching.state {
    case .over: return .new
    case .first: return select(digest, on: &matching, nowSeconds)
    case .following(let number):
      let sender = matching.sender
      guard let index = index(of: number, of: sender), let sequence = senders[sender]?[index],
        sequence.isCurrent(nowSeconds), sequence.next?.digest == digest
      else {
        end(&matching)
        return .new
      }
      return takeNext(of: sender, at: index, on: &matching)
    }
  }

  /// The connection ends, or accepts nothing more without an error packet.
  package mutating func end(_ matching: inout Matching) {
    if case .following(let number) = matching.state,
      let index = index(of: number, of: matching.sender)
    {
      senders[matching.sender]?[index].isTaken = false
    }
    matching.state = .over
  }

  /// The first notification of a connection.
  private mutating func select(
    _ digest: RelayDigest, on matching: inout Matching, _ nowSeconds: Int64
  ) -> Match {
    matching.state = .over
    let free = { (sequence: Sequence) in !sequence.isTaken && sequence.isCurrent(nowSeconds) }
    guard let sequences = senders[matching.sender] else { return .new }
    if let index = sequences.firstIndex(where: { free($0) && $0.next?.digest == digest }) {
      return takeNext(of: matching.sender, at: index, on: &matching)
    }
    if let index = sequences.firstIndex(where: { free($0) && $0.refused == digest }) {
      matching.state = .following(number: sequences[index].number)
      senders[matching.sender]?[index].isTaken = true
    }
    return .new
  }

  private mutating func takeNext(
    of sender: RelayDigest, at index: Int, on matching: inout Matching
  ) -> Match {
    guard let sequence = senders[sender]?[index], let entry = sequence.next else { return .new }
    let place = RememberedNotification.Place(
      sender: sender, sequence: sequence.number,
      index: sequence.firstIndex + UInt32(sequence.head))
    if sequence.head + 1 == sequence.entries.count {
      matching.state = .over
      forget(sender, at: index)
    } else {
      matching.state = .following(number: sequence.number)
      senders[sender]?[index].head += 1
      senders[sender]?[index].isTaken = true
    }
    return .suppressed(original: entry.original, place: place)
  }

  private func index(of number: UInt64, of sender: RelayDigest) -> Int? {
    senders[sender]?.firstIndex { $0.number == number }
  }

  // MARK: Remembering

  /// An error packet about `refused` ends the connection.
  ///
  /// - Parameter entries: What was accepted after it on this connection, in order; resends with their original ids.
  /// - Returns: The new sequence; nil if there is nothing to remember, or no room.
  package mutating func remember(
    _ entries: [Entry], after refused: RelayDigest, on matching: inout Matching, nowSeconds: Int64
  ) -> ID? {
    var all = entries
    if case .following(let number) = matching.state,
      let index = index(of: number, of: matching.sender), let old = senders[matching.sender]?[index]
    {
      if old.isCurrent(nowSeconds) { all += old.entries[old.head...] }
      forget(matching.sender, at: index)
    }
    matching.state = .over
    guard !all.isEmpty else { return nil }
    if all.count > Limits.rememberedPerSequence {
      all.removeSubrange(Limits.rememberedPerSequence...)
    }
    let id = ID(sender: matching.sender, number: nextNumber)
    append(
      Sequence(
        number: nextNumber, expiresSeconds: nowSeconds + Limits.rememberedSeconds,
        refused: refused, entries: all),
      of: matching.sender)
    keepBounds(of: matching.sender)
    return index(of: id.number, of: id.sender) == nil ? nil : id
  }

  /// Calls `body` with each row of a sequence; with none if it is forgotten.
  package func forEachRow(of id: ID, _ body: (RememberedNotification) -> Void) {
    guard let index = index(of: id.number, of: id.sender), let sequence = senders[id.sender]?[index]
    else { return }
    func row(_ index: UInt32, _ digest: RelayDigest, _ original: NotificationID?) {
      body(
        RememberedNotification(
          place: .init(sender: id.sender, sequence: id.number, index: index), digest: digest,
          original: original, expiresSeconds: sequence.expiresSeconds))
    }
    if let refused = sequence.refused { row(0, refused, nil) }
    for place in sequence.head..<sequence.entries.count {
      let entry = sequence.entries[place]
      row(sequence.firstIndex + UInt32(place), entry.digest, entry.original)
    }
  }

  /// Reads a row back after a start. Call it in the order of the rows' places, before any connection begins. A row that
  /// does not continue its sequence is left out.
  package mutating func restore(_ row: RememberedNotification) {
    let place = row.place
    if senders[place.sender]?.last?.number != place.sequence {
      append(
        Sequence(number: place.sequence, expiresSeconds: row.expiresSeconds), of: place.sender)
    }
    guard let last = senders[place.sender]?.indices.last else { return }
    if senders[place.sender]?[last].restore(row) == true { count += 1 }
    keepBounds(of: place.sender)
  }

  // MARK: Forgetting

  /// Forgets what has expired. Call it now and then: expired sequences match nothing, but take room.
  package mutating func expire(nowSeconds: Int64) {
    let expired = senders.flatMap { sender, sequences in
      sequences.filter { !$0.isCurrent(nowSeconds) }.map { ID(sender: sender, number: $0.number) }
    }
    for id in expired.sorted(by: { $0.number < $1.number }) {
      if let index = index(of: id.number, of: id.sender) { forget(id.sender, at: index) }
    }
  }

  /// A sequence whose rows the caller deletes; nil if there is no other.
  package mutating func nextForgotten() -> ID? { forgotten.popLast() }

  private mutating func append(_ sequence: Sequence, of sender: RelayDigest) {
    senders[sender, default: []].append(sequence)
    count += sequence.entries.count
    nextNumber = max(nextNumber, sequence.number &+ 1)
  }

  private mutating func forget(_ sender: RelayDigest, at index: Int) {
    guard let sequence = senders[sender]?.remove(at: index) else { return }
    if senders[sender]?.isEmpty == true { senders[sender] = nil }
    count -= sequence.entries.count
    forgotten.append(ID(sender: sender, number: sequence.number))
  }

  private mutating func keepBounds(of sender: RelayDigest) {
    if let kept = senders[sender]?.count, kept > Limits.rememberedSequencesPerSender {
      forget(sender, at: 0)
    }
    while count > capacity, let largest = senders.max(by: Self.isSmaller)?.key {
      forget(largest, at: 0)
    }
  }

  /// Of two senders with equally many notifications, the one with the older sequence is the larger, so that the order
  /// of a dictionary decides nothing.
  private static func isSmaller(
    _ left: (key: RelayDigest, value: [Sequence]), _ right: (key: RelayDigest, value: [Sequence])
  ) -> Bool {
    let leftCount = left.value.reduce(0) { $0 + $1.entries.count }
    let rightCount = right.value.reduce(0) { $0 + $1.entries.count }
    guard leftCount == rightCount else { return leftCount < rightCount }
    return left.value[0].number > right.value[0].number
  }
}
