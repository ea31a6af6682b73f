import ApusClient
import ApusCommand
import ApusModel
import ApusWire
import Glibc
import Synchronization

/// A run through a list, as the threads that work on it share it: one reads rows, tasks send them, one shows how far it
/// is.
final class SendRun: Sendable {
  let rows = RowChannel(capacity: 2048)
  private let results: ResultsFile
  private let printsOutcomes: Bool
  private let list: RecipientList
  private let state = Mutex(State())

  private struct State {
    var tally = RunTally()
    var failure: CommandFailure?
    var isFinished = false
  }

  init(results: ResultsFile, printsOutcomes: Bool, list: RecipientList) {
    self.results = results
    self.printsOutcomes = printsOutcomes
    self.list = list
  }

  var tally: RunTally { state.withLock(\.tally) }
  var failure: CommandFailure? { state.withLock(\.failure) }

  func changeTally(_ body: (inout RunTally) -> Void) { state.withLock { body(&$0.tally) } }

  /// Sends what comes through the channel until its end, so many at a time.
  func send(with client: APNSClient, concurrency: Int) async {
    await withTaskGroup(of: Void.self) { group in
      for _ in 0..<concurrency {
        group.addTask {
          while let row = await self.rows.next() { await self.send(row, with: client) }
        }
      }
    }
  }

  private func send(_ row: SendRow, with client: APNSClient) async {
    var isFailureToConnect = false
    let outcome: RowOutcome
    do throws(PushRequestError) {
      switch try await client.send(row.request) {
      case .accepted(_, let uniqueID): outcome = .accepted(uniqueID: uniqueID)
      case .rejected(let rejection):
        outcome = .rejected(
          status: rejection.status, reason: rejection.reason.rawValue,
          timestampMilliseconds: rejection.timestampMilliseconds)
      case .unknown(let cause, let mayBeTaken):
        isFailureToConnect = cause.code == .connectionFailed
        outcome = .unknown(cause: "\(cause)", mayBeTaken: mayBeTaken)
      }
    } catch {
      outcome = .invalid("\(error)")
    }
    note(row, outcome, isFailureToConnect: isFailureToConnect)
  }

  /// Writes a row's outcome down. What says that no further row can succeed ends the run.
  func note(_ row: SendRow, _ outcome: RowOutcome, isFailureToConnect: Bool = false) {
    note(
      row: row.number, token: row.request.token, id: row.id, outcome,
      isFailureToConnect: isFailureToConnect)
  }

  func note(
    row: Int, token: String?, id: NotificationID, _ outcome: RowOutcome,
    isFailureToConnect: Bool = false
  ) {
    let line = RunJournal.line(row: row, token: token, id: id, outcome)
    if printsOutcomes { Output.json(line) }
    if let failure = results.write(line) { fail(failure) }
    let stops = state.withLock { state in
      let before = state.tally.stop
      state.tally.note(outcome, isFailureToConnect: isFailureToConnect)
      return before == nil && state.tally.stop != nil
    }
    if stops { stop() }
  }

  // MARK: The end

  func interrupt() {
    changeTally { $0.interrupt() }
    stop()
  }

  func fail(_ failure: CommandFailure) {
    state.withLock { state in if state.failure == nil { state.failure = failure } }
    stop()
  }

  /// Takes no more rows. Those that were begun and wait for their turn are written down as not sent.
  private func stop() { noteUnsent(rows.abandon()) }

  func noteUnsent(_ unsent: [SendRow]) {
    for row in unsent {
      let line = RunJournal.line(
        row: row.number, token: row.request.token, id: row.id,
        .unknown(cause: "the run ended before", mayBeTaken: false))
      _ = results.write(line)
    }
  }

  /// Ends the progress.
  func finish() { state.withLock { $0.isFinished = true } }

  // MARK: Progress

  /// Keeps a line on the terminal up to date until `finish`.
  func showProgress() async {
    let start = Process.milliseconds
    var last = (done: 0, time: start, perSecond: 0)
    while !state.withLock(\.isFinished) {
      try? await Task.sleep(nanoseconds: 200_000_000)
      let (tally, now) = (tally, Process.milliseconds)
      if now - last.time >= 1000 {
        let perSecond = Int64(tally.done - last.done) * 1000 / (now - last.time)
        last = (tally.done, now, Int(perSecond))
      }
      let line = ProgressLine(
        done: tally.done, failed: tally.done - tally.accepted, readBytes: list.readBytes,
        listBytes: list.totalBytes, milliseconds: now - start, perSecond: last.perSecond)
      Output.diagnostic("\r\u{1b}[K" + line.text(columns: (Process.columns ?? 80) - 1))
    }
    Output.diagnostic("\r\u{1b}[K")
  }
}

/// A row that is ready to be sent.
struct SendRow: Sendable {
  var number: Int
  var id: NotificationID
  var request: PushRequest
}

/// Rows on their way from the thread that reads them to the tasks that send them.
@safe final class RowChannel: @unchecked Sendable {
  private struct State {
    var rows: [SendRow?] = []
    var head = 0
    var waiting: [CheckedContinuation<SendRow?, Never>] = []
    var isEnded = false

    var isEmpty: Bool { head == rows.count }

    mutating func takeFirst() -> SendRow? {
      guard !isEmpty else { return nil }
      let row = rows[head].take()
      head += 1
      if isEmpty {
        rows.removeAll(keepingCapacity: true)
        head = 0
      }
      return row
    }
  }

  /// How many more rows there is room for.
  private let room: UnsafeMutablePointer<sem_t>
  private let state = Mutex(State())

  init(capacity: Int) {
    unsafe room = .allocate(capacity: 1)
    unsafe sem_init(room, 0, UInt32(capacity))
  }

  deinit {
    unsafe sem_destroy(room)
    unsafe room.deallocate()
  }

  /// Waits until there is room. False when the channel has ended: the row is not taken.
  func put(_ row: SendRow) -> Bool {
    while unsafe sem_wait(room) != 0 {}
    let (isTaken, reader) = state.withLock { state in
      guard !state.isEnded else { return (false, CheckedContinuation<SendRow?, Never>?.none) }
      guard let reader = state.waiting.popLast() else {
        state.rows.append(row)
        return (true, nil)
      }
      return (true, reader)
    }
    guard isTaken else {
      unsafe sem_post(room)
      return false
    }
    if let reader {
      unsafe sem_post(room)
      reader.resume(returning: row)
    }
    return true
  }

  /// The next row; nil after the last one.
  func next() async -> SendRow? {
    await withCheckedContinuation { continuation in
      let row = state.withLock { state -> SendRow?? in
        if let row = state.takeFirst() { return .some(row) }
        if state.isEnded { return .some(nil) }
        state.waiting.append(continuation)
        return nil
      }
      guard let row else { return }
      if row != nil { unsafe sem_post(room) }
      continuation.resume(returning: row)
    }
  }

  /// No more rows come; those that are there are still taken.
  func end() {
    let waiting = state.withLock { state in
      state.isEnded = true
      defer { state.waiting = [] }
      return state.waiting
    }
    for reader in waiting { reader.resume(returning: nil) }
    // Whoever waits for room.
    unsafe sem_post(room)
  }

  /// Ends the channel and gives the rows that nobody took.
  func abandon() -> [SendRow] {
    let rows = state.withLock { state in
      let rows = state.rows[state.head...].compactMap(\.self)
      state.rows = []
      state.head = 0
      return rows
    }
    end()
    return rows
  }
}
