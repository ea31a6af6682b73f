import ApusClient
import ApusCommand
import ApusModel
import ApusWire
import Glibc
import Synchronization

/// A run through a list, shared by its threads: one reads rows, tasks send them, one shows the progress.
final class SendRun: Sendable {
  let rows = RowChannel(capacity: 512)
  private let results: ResultsFile
  private let printsOutcomes: Bool
  private let list: RecipientList
  private let state = Mutex(State())

  private struct State {
    var tally = RunTally()
    var failure: CommandFailure?
    var isFinished = false
    /// Rows without an outcome, by their index in the client's sequence of requests.
    var underWay: [Int: SendRow] = [:]
    var begun = 0
  }

  init(results: ResultsFile, printsOutcomes: Bool, list: RecipientList) {
    self.results = results
    self.printsOutcomes = printsOutcomes
    self.list = list
  }

  var tally: RunTally { state.withLock(\.tally) }
  var failure: CommandFailure? { state.withLock(\.failure) }

  /// Whether to send more rows.
  var isGoing: Bool { state.withLock { $0.tally.stop == nil && $0.failure == nil } }

  func changeTally(_ body: (inout RunTally) -> Void) { state.withLock { body(&$0.tally) } }

  /// Sends the rows of the channel until its end, at most `concurrency` at a time.
  func send(with client: APNSClient, concurrency: Int) async {
    for await outcome in client.send(all: RowRequests(run: self), capacity: concurrency) {
      guard let row = state.withLock({ $0.underWay.removeValue(forKey: outcome.index) }) else {
        continue
      }
      record(row, outcome.result)
    }
  }

  /// The next row's request; nil after the last one.
  fileprivate func nextRequest() async -> PushRequest? {
    guard let row = await rows.next() else { return nil }
    state.withLock { state in
      state.underWay[state.begun] = row
      state.begun += 1
    }
    return row.request
  }

  private func record(_ row: SendRow, _ result: Result<SendOutcome, PushRequestError>) {
    var isFailureToConnect = false
    let outcome: RowOutcome
    switch result {
    case .success(.accepted(_, let uniqueID)): outcome = .accepted(uniqueID: uniqueID)
    case .success(.rejected(let rejection)):
      outcome = .rejected(
        status: rejection.status, reason: rejection.reason.rawValue,
        timestampMilliseconds: rejection.timestampMilliseconds)
    case .success(.unknown(let cause, let mayBeTaken)):
      isFailureToConnect = cause.code == .connectionFailed
      outcome = .unknown(cause: "\(cause)", mayBeTaken: mayBeTaken)
    case .failure(let error): outcome = .invalid("\(error)")
    }
    record(
      row: row.number, to: row.request.recipient, id: row.id, outcome,
      isFailureToConnect: isFailureToConnect)
  }

  /// Records a row's outcome. Ends the run if no further row can succeed.
  func record(
    row: Int, to recipient: RowRecipient?, id: NotificationID, _ outcome: RowOutcome,
    isFailureToConnect: Bool = false
  ) {
    let line = RunJournal.line(row: row, to: recipient, id: id, outcome)
    if let failure = results.write(line) { fail(failure) }
    // After writing the results: a reader of the output may end the program.
    if printsOutcomes { Output.json(line) }
    let stops = state.withLock { state in
      let before = state.tally.stop
      state.tally.count(outcome, isFailureToConnect: isFailureToConnect)
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

  /// Stops taking rows. Started rows that are still queued are recorded as not sent.
  private func stop() { noteUnsent(rows.abandon()) }

  func noteUnsent(_ unsent: [SendRow]) {
    for row in unsent {
      let line = RunJournal.line(
        row: row.number, to: row.request.recipient, id: row.id,
        .unknown(cause: "the run ended first", mayBeTaken: false))
      _ = results.write(line)
    }
  }

  /// Ends the progress display.
  func finish() { state.withLock { $0.isFinished = true } }

  // MARK: Progress

  /// Updates a progress line on the terminal until `finish`.
  func showProgress() async {
    let start = Process.milliseconds
    var last = (done: 0, time: start, perSecond: 0)
    while !state.withLock(\.isFinished) {
      try? await Task.sleep(nanoseconds: 200_000_000)
      let (tally, now) = (tally, Process.milliseconds)
      if now - last.time >= 1000 {
        let perSecond = Int64(tally.done - last.done) * 1000 / (now - last.time)
        last = (tally.done, now, Int(perSecond))
      } else if last.time == start, now > start {
        last.perSecond = Int(Int64(tally.done) * 1000 / (now - start))
      }
      let line = ProgressLine(
        done: tally.done, failed: tally.done - tally.accepted,
        settledBefore: tally.settledBefore + tally.leftInDoubt, readRows: tally.readRows,
        readBytes: tally.readBytes, listBytes: list.totalBytes, milliseconds: now - start,
        perSecond: last.perSecond)
      Output.diagnostic("\r\u{1b}[K" + line.text(columns: (Process.columns ?? 80) - 1))
    }
    Output.diagnostic("\r\u{1b}[K")
  }
}

/// The rows of a run as requests for the client.
private struct RowRequests: AsyncSequence, Sendable {
  typealias Failure = Never

  let run: SendRun

  func makeAsyncIterator() -> Iterator { Iterator(run: run) }

  struct Iterator: AsyncIteratorProtocol {
    typealias Failure = Never

    let run: SendRun

    mutating func next() async -> PushRequest? { await run.nextRequest() }
  }
}
