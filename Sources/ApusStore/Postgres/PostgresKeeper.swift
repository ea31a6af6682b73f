import ApusModel
import ApusThread

/// What the keeper thread does: it renews the lease and gives it back, replaces lost connections of readers, and
/// searches for expired notifications.
final class PostgresKeeper: @unchecked Sendable {
  private struct State {
    var isAsked = false
    var isStopping = false
    var isFinished = false
  }

  private let state = Monitor(State())
  /// The database that has the lease.
  private let address: PostgresAddress
  private let tenure: PostgresTenure
  private let options: PostgresOptions
  private let lease: StoreLease
  /// The thread's own, so that no lock and no queue of others delays the lease.
  private var connection: PostgresConnection?
  private var isTakenOver = false

  init(
    _ address: PostgresAddress, _ tenure: PostgresTenure, _ options: PostgresOptions,
    _ lease: StoreLease
  ) {
    self.lease = lease
    self.address = address
    self.tenure = tenure
    self.options = options
  }

  /// Asks for lost connections to be replaced now.
  func ask() { state.notify { $0.isAsked = true } }

  /// Gives the lease back, so that the next process need not wait, ends the thread, and waits for that. Nothing is
  /// written any more.
  func stop() {
    state.notify { $0.isStopping = true }
    state.wait { $0.isFinished ? .found(()) : .wait(untilMilliseconds: nil) }
  }

  /// - Parameter progress: How far the database is known to be.
  func run(
    _ reading: PostgresReading, _ expiries: ExpirySearch, progress: () -> DatabaseProgress
  ) {
    var renewal = Deadline.after(milliseconds: 0)
    while !isStopping(by: renewal) {
      if renewal.isPast {
        renewal = .after(milliseconds: options.renewMilliseconds)
        renew()
        options.onProgress(tenure.databaseID, tenure.part, progress())
        expiries.search(reading, rows: options.expirySearchRows)
      }
      do throws(PostgresFault) { try reading.readers.replenish() } catch {
        // The next renewal tries again.
        continue
      }
    }
    if !isTakenOver { release() }
    connection = nil
    state.notify { $0.isFinished = true }
  }

  /// Waits until a connection is missing, the deadline has passed, or the thread must end.
  private func isStopping(by deadline: Deadline) -> Bool {
    state.wait { state in
      if state.isStopping { return .found(true) }
      if state.isAsked || deadline.isPast {
        state.isAsked = false
        return .found(false)
      }
      return .wait(untilMilliseconds: deadline.milliseconds)
    }
  }

  /// A process whose lease another one took says so, once. Its lane keeps it from writing in any case.
  private func renew() {
    guard !isTakenOver else { return }
    do throws(PostgresFault) {
      if connection == nil { connection = try connect() }
      guard let connection else { return }
      let sent = bootMilliseconds()
      let isRenewed = try connection.ask(
        .renew, PostgresValues(.text(tenure.lease), .integer(tenure.incarnation)),
        withinMilliseconds: options.answerMilliseconds
      ) { $0.count > 0 }
      guard !isRenewed else { return lease.renewed(sentAtMilliseconds: sent) }
      lease.end()
      let holder = try connection.ask(
        .lease, PostgresValues(.text(tenure.lease)),
        withinMilliseconds: options.answerMilliseconds
      ) { $0.count > 0 ? $0.text(0, 3) : "" }
      isTakenOver = true
      options.onEvent(.failed(.takenOver(place: address.description, holder: holder)))
    } catch {
      connection = nil
    }
  }

  /// Tries a second time, over a new connection: since the last renewal the database may have failed over.
  private func release() {
    for _ in 0..<2 {
      do throws(PostgresFault) {
        if connection == nil { connection = try connect() }
        try connection?.ask(
          .release, PostgresValues(.text(tenure.lease), .integer(tenure.incarnation)),
          withinMilliseconds: options.answerMilliseconds
        ) { _ in }
        return
      } catch {
        connection = nil
      }
    }
  }

  private func connect() throws(PostgresFault) -> PostgresConnection {
    try PostgresConnection(
      address, part: options.part, name: tenure.connectionName,
      withinMilliseconds: options.answerMilliseconds)
  }
}
