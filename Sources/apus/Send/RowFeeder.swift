import ApusClient
import ApusCommand
import ApusModel
import ApusWire
import Glibc

/// Reads a list and prepares its rows, on a thread that may block.
///
/// Rows are handled in blocks. Blocks of an earlier run keep their bounds and are checked against their digest.
struct RowFeeder {
  private let list: RecipientList
  private let template: MessageTemplate
  private let run: SendRun
  private let results: ResultsFile
  private let retriesDoubtful: Bool
  private let isStrict: Bool
  private var topics: TopicMemo
  private var reader: RecordReader
  private var block: [Record] = []
  private var earlier: ArraySlice<RunJournal.Block>
  private var pace: Pace?
  private let blockRows: Int
  private var toldRules: Set<LintRule> = []
  private var toldDoubts = 0

  /// How many doubtful rows are named individually.
  private static let namedDoubts = 20

  init(
    _ invocation: Invocation, _ list: RecipientList, _ template: MessageTemplate,
    _ credentials: SendCredentials, _ run: SendRun, _ results: ResultsFile
  ) {
    self.list = list
    self.template = template
    self.run = run
    self.results = results
    retriesDoubtful = invocation.isOn(SendOptions.retryDoubtful)
    isStrict = invocation.isOn(SendOptions.strict)
    topics = TopicMemo(credentials)
    reader = RecordReader(format: invocation[SendOptions.format])
    earlier = results.journal.blocks[...]
    let rate = invocation[SendOptions.rate]
    pace = rate.map { Pace(rowsPerSecond: $0) }
    // The rows of a quarter of a second, so that few started rows wait to be sent.
    blockRows = min(max((rate ?? .max) / 4, 1), RunJournal.blockRows)
  }

  /// Feeds rows until the end of the list or of the run.
  mutating func feed() throws(CommandFailure) {
    var isAtEnd = false
    while !isAtEnd, isGoing {
      let goesOn = { [run] in run.isGoing }
      guard let piece = try list.next(whileGoing: goesOn) else { return }
      isAtEnd = piece.isEmpty
      reader.append(piece)
      while isGoing, let record = try nextRecord() { try take(record) }
      // A pipe may pause after these rows, so they must not wait for a full block.
      if isAtEnd || list.totalBytes == nil, earlier.isEmpty { try begin() }
    }
    guard isGoing, !earlier.isEmpty else { return }
    throw CommandFailure(
      .usage, "\(list.name) has fewer rows than in the earlier run",
      remedy: "Give the same list as in the earlier run.")
  }

  private var isGoing: Bool { run.isGoing }

  private mutating func nextRecord() throws(CommandFailure) -> Record? {
    do throws(RecordProblem) {
      guard let record = try reader.next() else { return nil }
      run.changeTally { $0.noteRead(rows: record.number, bytes: reader.readBytes) }
      return record
    } catch {
      throw CommandFailure(.usage, "\(list.name): \(error)")
    }
  }

  private mutating func take(_ record: Record) throws(CommandFailure) {
    block.append(record)
    if let old = earlier.first {
      guard record.number == old.rows.upperBound else { return }
      earlier.removeFirst()
      try goOn(old)
    } else if block.count >= blockRows {
      try begin()
    }
  }

  // MARK: Blocks

  private var digest: UInt64 {
    var digest = RowDigest()
    for record in block { digest.add(record.bytes) }
    return digest.value
  }

  /// Starts new rows.
  private mutating func begin() throws(CommandFailure) {
    guard let first = block.first, let last = block.last else { return }
    try write(
      RunJournal.startLine(RunJournal.Block(rows: first.number...last.number, digest: digest)))
    send(block)
    block = []
  }

  /// Handles the rows of a block of an earlier run.
  private mutating func goOn(_ old: RunJournal.Block) throws(CommandFailure) {
    guard digest == old.digest else {
      throw CommandFailure(
        .usage,
        "rows \(old.rows.lowerBound) to \(old.rows.upperBound) of \(list.name) differ from the "
          + "earlier run", remedy: "Give the same list as in the earlier run.")
    }
    var again: [Record] = []
    for record in block {
      switch results.journal.state(of: record.number) {
      case .settled: run.changeTally { $0.settledBefore += 1 }
      case .doubtful where !retriesDoubtful: tellDoubt(record)
      case .doubtful, .notTaken, .unseen: again.append(record)
      }
    }
    block = []
    guard !again.isEmpty else { return }
    try write(RunJournal.againLine(again.map(\.number)))
    send(again)
  }

  /// Writes and syncs a line that must be on the disk before a row is sent.
  private func write(_ line: JSONValue) throws(CommandFailure) {
    if let failure = results.write(line) ?? results.sync() { throw failure }
  }

  private mutating func tellDoubt(_ record: Record) {
    let id = RunJournal.apnsID(run: results.run, row: record.number)
    var recipient: RowRecipient?
    if case .good(let fields) = record.fields { recipient = RowRecipient(fields) }
    _ = results.write(
      RunJournal.line(
        row: record.number, to: recipient, id: id,
        .unknown(cause: "the earlier run ended before the response", mayBeTaken: true)))
    run.changeTally { $0.leftInDoubt += 1 }
    toldDoubts += 1
    guard toldDoubts <= Self.namedDoubts else { return }
    Self.say(
      toldDoubts == Self.namedDoubts
        ? "more rows may have been sent; the results list all of them"
        : "row \(record.number) (\(recipient?.text.prefix(8) ?? "?")…) may have been sent, as \(id.text)"
    )
  }

  // MARK: Rows

  /// Sends the rows of a block. If the run ends first, the remaining rows are recorded as not sent.
  private mutating func send(_ records: [Record]) {
    for record in records {
      guard let row = prepare(record) else { continue }
      waitForTurn()
      if !run.rows.put(row) { run.noteUnsent([row]) }
    }
  }

  /// Nil if the row cannot be sent, which is recorded.
  private mutating func prepare(_ record: Record) -> SendRow? {
    let id = RunJournal.apnsID(run: results.run, row: record.number)
    var recipient: RowRecipient?
    do throws(RowProblem) {
      let message = try template.message(for: record)
      recipient = RowRecipient(message)
      var request = PushRequest(message, topic: try topics.topic(for: message))
      let rowID = message.id ?? id
      request.id = rowID
      if let problem = DryRun.problem(with: request) { throw RowProblem(problem) }
      try lint(request, record)
      return SendRow(number: record.number, id: rowID, request: request)
    } catch {
      run.record(row: record.number, to: recipient, id: id, .invalid(error.text))
      return nil
    }
  }

  private mutating func lint(
    _ request: PushRequest, _ record: Record
  ) throws(RowProblem) {
    for finding in request.lint(nowSeconds: Process.nowSeconds) {
      if isStrict { throw RowProblem("\(finding.place): \(finding.problem)") }
      guard toldRules.insert(finding.rule).inserted else { continue }
      Self.say("row \(record.number) and possibly others: \(finding)")
    }
  }

  private mutating func waitForTurn() {
    guard pace != nil else { return }
    while isGoing {
      // In short sleeps, so that an interruption takes effect soon.
      guard let delay = pace?.delay(nowNanoseconds: Process.nanoseconds), delay > 0 else { return }
      usleep(UInt32(min(delay / 1000 + 1, 200_000)))
      if delay <= 200_000_000 { return }
    }
  }

  private static func say(_ text: String) {
    let start = isatty(STDERR_FILENO) == 1 ? "\r\u{1b}[K" : ""
    Output.diagnostic("\(start)apus send: \(NotificationCard.harmless(text))\n")
  }
}

/// The topic for each suffix, looked up once.
struct TopicMemo {
  private let credentials: SendCredentials
  private var topics: [TopicSuffix: Result<String?, CommandFailure>] = [:]

  init(_ credentials: SendCredentials) { self.credentials = credentials }

  mutating func topic(for message: Message) throws(RowProblem) -> String? {
    if message.topic != nil { return nil }
    let suffix = message.topicSuffix
    if topics[suffix] == nil {
      topics[suffix] = Result { () throws(CommandFailure) in try credentials.topic(suffix) }
    }
    switch topics[suffix] {
    case .success(let topic)?: return topic
    case .failure(let failure)?: throw RowProblem(failure.problem)
    case nil: return nil
    }
  }
}
