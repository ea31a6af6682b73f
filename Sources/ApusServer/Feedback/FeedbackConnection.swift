import ApusCore
import ApusDirectory
import ApusLog
import ApusLoop
import ApusModel
import ApusStore
import ApusTLS
import ApusWire

/// A connection to the feedback service: writes the dead tokens of its certificate's topic, oldest first, then closes.
///
/// Source: Binary Provider API. The service writes as soon as the connection is established, and the provider reads to
/// the end.
///
/// The connection leases rows while the provider reads, and removes them once the provider has them all: delivery is at
/// least once. A second reader of the same list gets the rows that are not leased.
///
/// The provider has all rows if it closed its side in an orderly way, or if its system acknowledged every byte. A
/// provider that stops in the middle resets the connection, because unread bytes cause a reset.
///
/// Used on its worker's thread only, except while the store reports the removal of rows.
@safe final class FeedbackConnection: ConnectionDriver, @unchecked Sendable {
  private let list: FeedbackTopic
  private let lease: FeedbackLeases.ID
  /// How many of the leased rows were written to the connection.
  private var written = 0
  /// How many of them have been removed from the store, or are being removed.
  private var removed = 0
  /// The last row that was read from the store, even if another reader has its lease.
  private var last: FeedbackRow?
  /// Whether all rows that this reader can get are leased.
  private var isComplete = false
  private var sender: BinarySender
  /// What other nodes have of the list, read behind this node's own.
  private let further: [FurtherFeedback]

  /// Rows fetched or removed at a time.
  private static let rowsPerPage = 40 * Limits.feedbackTuplesPerWrite

  /// Nil if the certificate is not accepted here or names no topic: then there is no list to read.
  ///
  /// - Parameter links: To the nodes that have other parts of the list.
  init?(reading connection: Connection, _ links: PartLinks<ClientLinks>) {
    let context = connection.context
    do throws(Refusal) {
      sender = try BinarySender(
        certificate: connection.certificateCredential(),
        environment: connection.listener.environment, rules: .standard,
        directory: context.trust.directory)
      list = FeedbackTopic(
        topic: try sender.requiredTopic().key, environment: sender.environment)
    } catch {
      guard let (reader, named) = Self.lenientReader(connection) else {
        connection.noteRefusal(error)
        return nil
      }
      (sender, list) = (reader, named)
    }
    let list = list
    lease = context.feedback.withLeases { $0.open(list.topic, list.environment) }
    // The node of part 0 has all readers, and the others are asked by it.
    further =
      context.configuration.share.isMain ? links.map { FurtherFeedback(connection, $0) } : []
    super.init(connection)
    setDeadline()
    connection.markDirty()
  }

  /// In lenient mode, for a certificate that the strict service would refuse: the list of the topic that it names, no
  /// matter which team has the app. Nil if no app has the topic.
  private static func lenientReader(_ connection: Connection) -> (BinarySender, FeedbackTopic)? {
    let context = connection.context
    guard context.configuration.interceptor?.isLenient == true else { return nil }
    let sender = BinarySender(
      unexamined: try? connection.certificateCredential(),
      environment: connection.listener.environment, rules: .standard)
    guard let topic = sender.namedTopic(in: context.trust.directory) else { return nil }
    return (sender, FeedbackTopic(topic: topic, environment: sender.environment))
  }

  // MARK: Writing

  /// Writes whole tuples, a few per TLS record: some readers lose tuples in larger records.
  override func flush() -> Connection.Ending {
    while connection.mayWrite {
      let rows = leasedRows
      if written < rows.count {
        write(rows[written..<min(written + Limits.feedbackTuplesPerWrite, rows.count)])
      } else if isComplete {
        guard passOnFurther() else { return .none }
        return rows.isEmpty && !further.contains(where: \.hasSpoken) ? .now : .afterPause
      } else {
        leaseMore()
      }
    }
    return .none
  }

  /// Goes on with what other nodes have, one after the other. False while there may be more.
  private func passOnFurther() -> Bool {
    for list in further {
      list.begin()
      list.flush()
      guard list.isOver, !list.hasPieces else { return false }
    }
    return true
  }

  /// The rows of this connection's lease, written or not.
  private var leasedRows: [FeedbackLeases.Row] {
    let lease = lease
    return context.feedback.withLeases { $0.rows(of: lease) }
  }

  private func write(_ rows: ArraySlice<FeedbackLeases.Row>) {
    context.scratch.removeAll(keepingCapacity: true)
    for row in rows {
      let token = row.token.bytes
      context.scratch.append(
        feedbackTuple: token.span, timeSeconds: UInt32(clamping: row.milliseconds / 1000))
    }
    connection.encrypt(context.scratch, count: context.scratch.count)
    written = rows.endIndex
  }

  /// Leases the next rows that no other reader has, within the lease's limit.
  private func leaseMore() {
    var page: [FeedbackRow] = []
    do {
      try context.store.feedbackRows(of: list, after: last, limit: Self.rowsPerPage, into: &page)
    } catch {
      context.log(.error, "feedback list unreadable", .text("reason", "\(error)"))
    }
    last = page.last ?? last
    let (lease, offered) = (lease, page)
    let isFull = context.feedback.withLeases { leases in
      for row in offered {
        _ = leases.take(row.token, milliseconds: row.milliseconds, for: lease)
      }
      return leases.isFull(lease)
    }
    isComplete = isFull || page.count < Self.rowsPerPage
  }

  // MARK: Trust

  /// Called when a time limit of the connection was reached: its certificate may have expired.
  override func deadlineReached() {
    if let end = sender.notAfterSeconds, context.certificateSeconds > end { judgeTrust() }
    setDeadline()
  }

  /// A reader that takes nothing is the connection's concern.
  private func setDeadline() {
    connection.schedule.deadlineSeconds = sender.notAfterSeconds.map(context.secondAfter) ?? .max
  }

  /// Called when the trust was replaced or the certificate has expired: checks whether this reader may still get the
  /// rest of the list.
  override func trustChanged(hasLostAuthority: Bool) { judgeTrust() }

  private func judgeTrust() {
    do throws(Refusal) {
      try sender.reexamine(
        directory: context.trust.directory, nowSeconds: context.certificateSeconds)
    } catch {
      if context.configuration.interceptor?.isLenient == true { return }
      connection.noteRevocation(error)
      connection.abort()
    }
  }

  // MARK: The end

  /// It may have shut its own side first, and reads on.
  override func peerFinished() {}

  override var awaitsConfirmation: Bool { true }

  /// Called when the connection has ended. Removes the rows if the reader has all of them; otherwise returns them to
  /// the list.
  override func connectionClosed(_ end: Connection.End) {
    let isTaken =
      switch end {
      case .peerFinished: true
      case .timedOut(let isTaken): isTaken
      case .cut: false
      }
    for list in further { list.end(isTaken: isTaken) }
    guard isComplete, written == leasedRows.count, isTaken else { return closeLease() }
    removeRows()
  }

  /// Removes one page of rows at a time, so that a long list blocks neither the worker nor the store.
  private func removeRows() {
    let rows = leasedRows
    guard removed < rows.count else { return closeLease() }
    var group = context.store.makeGroup()
    let end = min(removed + Self.rowsPerPage, rows.count)
    for row in rows[removed..<end] {
      let time = try? context.store.feedbackTime(of: row.token, in: list)
      group.removeFeedback(
        FeedbackRow(milliseconds: row.milliseconds, token: row.token), of: list,
        isCurrent: time == row.milliseconds)
    }
    removed = end
    context.store.commit(group) { [self] error in
      context.loop.perform { [self] in removalEnded(error) }
    }
  }

  private func removalEnded(_ error: StoreError?) {
    guard let error else { return removeRows() }
    context.log(.error, "feedback list not cleared", .text("reason", "\(error)"))
    closeLease()
  }

  private func closeLease() {
    let lease = lease
    context.feedback.withLeases { $0.close(lease) }
  }
}
