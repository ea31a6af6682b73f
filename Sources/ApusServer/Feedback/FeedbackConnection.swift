import ApusCore
import ApusDirectory
import ApusLog
import ApusLoop
import ApusModel
import ApusStore
import ApusTLS
import ApusWire

/// A reader of the feedback service: the dead tokens of its certificate's topic, oldest first, and then the end.
///
/// "The service begins to write as soon as the connection is there; the provider reads until the end." The rows are
/// leased to the connection while it reads and removed once it has them all: at least once, whatever happens. A second
/// reader of the same list gets what is not leased.
///
/// Whether it has them all is asked of its system: an orderly end of its side, or every byte acknowledged. A reader
/// that goes away in the middle resets the connection, as unread bytes do that.
///
/// Touched by its worker's thread alone; it crosses another where the store says that rows are removed.
@safe final class FeedbackConnection: @unchecked Sendable {
  private let connection: Connection
  private let worker: Worker
  private let list: FeedbackTopic
  private let lease: FeedbackLeases.ID
  /// How many of the lease's rows were written to the connection.
  private var written = 0
  /// How many of them are out of the store, or on their way.
  private var removed = 0
  /// The last row that was looked at, this reader's or another's.
  private var last: FeedbackRow?
  /// Whether there is nothing more to lease.
  private var isComplete = false
  private var sender: BinarySender

  /// Rows that are fetched, or removed, at a time.
  private static let rowsPerPage = 40 * Limits.feedbackTuplesPerWrite

  /// Nil when the certificate is not good here, and where it names no topic: there is nothing to be read.
  init?(_ connection: Connection) {
    self.connection = connection
    worker = connection.worker
    do throws(Refusal) {
      sender = try BinarySender(
        certificate: BinaryProvider.credential(connection),
        environment: connection.door.environment, rules: .standard,
        directory: worker.trust.directory)
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
    lease = worker.feedback.withLeases { $0.open(list.topic, list.environment) }
  }

  // MARK: Writing

  /// Writes whole tuples, a few to a record: some readers lose what comes in larger ones.
  func flush() -> Connection.Ending {
    if let end = sender.notAfterSeconds, worker.certificateSeconds > end { trustChanged() }
    while connection.mayWrite {
      let rows = leasedRows
      if written < rows.count {
        write(rows[written..<min(written + Limits.feedbackTuplesPerWrite, rows.count)])
      } else if isComplete {
        return rows.isEmpty ? .now : .afterPause
      } else {
        leaseMore()
      }
    }
    return .none
  }

  /// What the connection was given, and is to be given.
  private var leasedRows: [FeedbackLeases.Row] {
    let lease = lease
    return worker.feedback.withLeases { $0.rows(of: lease) }
  }

  private func write(_ rows: ArraySlice<FeedbackLeases.Row>) {
    worker.scratch.removeAll(keepingCapacity: true)
    for row in rows {
      let token = row.token.bytes
      worker.scratch.append(
        feedbackTuple: token.span, timeSeconds: UInt32(clamping: row.milliseconds / 1000))
    }
    connection.encrypt(worker.scratch, count: worker.scratch.count)
    written = rows.endIndex
  }

  /// Takes the next rows that no other reader has, as far as there is room for them.
  private func leaseMore() {
    var page: [FeedbackRow] = []
    do {
      try worker.store.feedbackRows(of: list, after: last, limit: Self.rowsPerPage, into: &page)
    } catch {
      worker.log(.error, "feedback list unreadable", .text("reason", "\(error)"))
    }
    last = page.last ?? last
    let (lease, offered) = (lease, page)
    let isFull = worker.feedback.withLeases { leases in
      for row in offered {
        _ = leases.take(row.token, milliseconds: row.milliseconds, for: lease)
      }
      return leases.isFull(lease)
    }
    isComplete = isFull || page.count < Self.rowsPerPage
  }

  /// What connections are judged by was replaced, or the certificate's time is over: then the rest of the list is not
  /// for this reader.
  func trustChanged() {
    do throws(Refusal) {
      try sender.reexamine(
        directory: worker.trust.directory, nowSeconds: worker.certificateSeconds)
    } catch {
      if worker.rehearsal?.rehearsal.isLenient == true { return }
      connection.noteRevocation(error)
      connection.abort()
    }
  }

  // MARK: The end

  /// The connection is over: what the reader has is removed, and all goes back to the list if it does not have it all.
  func connectionClosed(_ end: Connection.End) {
    let isTaken =
      switch end {
      case .peerFinished: true
      case .timedOut(let isTaken): isTaken
      case .cut: false
      }
    guard isComplete, written == leasedRows.count, isTaken else { return closeLease() }
    removeRows()
  }

  /// Removes a page of rows at a time, so that a long list holds up neither the worker nor the store.
  private func removeRows() {
    let rows = leasedRows
    guard removed < rows.count else { return closeLease() }
    var group = worker.store.makeGroup()
    let end = min(removed + Self.rowsPerPage, rows.count)
    for row in rows[removed..<end] {
      let time = try? worker.store.feedbackTime(of: row.token, in: list)
      group.removeFeedback(
        FeedbackRow(milliseconds: row.milliseconds, token: row.token), of: list,
        isCurrent: time == row.milliseconds)
    }
    removed = end
    worker.store.commit(group) { [self] error in
      worker.loop.perform { [self] in removalEnded(error) }
    }
  }

  private func removalEnded(_ error: StoreError?) {
    guard let error else { return removeRows() }
    worker.log(.error, "feedback list not cleared", .text("reason", "\(error)"))
    closeLease()
  }

  private func closeLease() {
    let lease = lease
    worker.feedback.withLeases { $0.close(lease) }
  }
}
