package import ApusModel
package import ApusWire

/// The outcome of a row.
package enum RowOutcome: Sendable, Equatable {
  case accepted(uniqueID: String?)
  case rejected(status: UInt16, reason: String, timestampMilliseconds: Int64?)
  case unknown(cause: String, mayBeTaken: Bool)
  /// Not sent, because the row gives no valid message.
  case invalid(String)

  /// The state for a later run.
  package var state: RowState {
    switch self {
    case .accepted: .settled
    // Rejected credentials, too many requests and errors of the service say nothing about the notification itself.
    case .rejected(let status, _, _):
      status == 403 || status == 429 || status >= 500 ? .notTaken : .settled
    case .unknown(_, let mayBeTaken): mayBeTaken ? .doubtful : .notTaken
    case .invalid: .notTaken
    }
  }
}

/// To whom a row is sent, as its result names it.
package enum RowRecipient: Sendable, Equatable {
  case token(String)
  case channel(String)

  /// Nil if the fields of a row have neither.
  package init?(_ fields: [String: JSONValue]) {
    if let channel = fields["channel"]?.string, !channel.isEmpty {
      self = .channel(channel)
    } else if let token = fields["token"]?.string {
      self = .token(token)
    } else {
      return nil
    }
  }

  package init(_ message: Message) {
    self = message.channel.map(Self.channel) ?? .token(message.token)
  }

  package var text: String {
    switch self {
    case .token(let text), .channel(let text): text
    }
  }

  fileprivate var key: String {
    switch self {
    case .token: "token"
    case .channel: "channel"
    }
  }
}

/// The state of a row after earlier runs.
package enum RowState: UInt8, Sendable {
  /// Certainly not sent.
  case unseen
  /// Sending began; the outcome is unknown.
  case doubtful
  /// Accepted or finally rejected.
  case settled
  /// Certainly not accepted by the service.
  case notTaken
}

/// The results of a run, line by line, as written by the run and read by a later one.
///
/// Each line is a JSON object. The first one names the run. Before rows are sent, a line with `started` (rows from
/// `first` to `last`) or `again` (rows by number) is written and synced; after each row a line with its `outcome`. So
/// after a kill, rows without a `started` line were certainly not sent, and started rows without an outcome are
/// doubtful. A line cut off by a crash counts as not written.
package struct RunJournal: Sendable {
  /// Maximum number of rows that start together. If the run is killed, all of them are doubtful.
  package static let blockRows = 256

  package struct Block: Sendable, Equatable {
    package var rows: ClosedRange<Int>
    /// Digest of the rows in the list.
    package var digest: UInt64

    package init(rows: ClosedRange<Int>, digest: UInt64) {
      self.rows = rows
      self.digest = digest
    }
  }

  /// The id from which the ids of the notifications are counted.
  package private(set) var run: NotificationID?
  package private(set) var blocks: [Block] = []
  private var states: [RowState] = []
  private var lineNumber = 0

  package init() {}

  package func state(of row: Int) -> RowState {
    row - 1 < states.count ? states[row - 1] : .unseen
  }

  /// Number of rows of earlier runs.
  package var rowCount: Int { states.count }

  /// The id of a row's notification: the same each time it is sent.
  package static func apnsID(run: NotificationID, row: Int) -> NotificationID {
    NotificationID(high: run.high, low: run.low &+ UInt64(row))
  }

  // MARK: Reading

  /// Reads one line, without its line end.
  package mutating func read(_ line: Span<UInt8>) throws(RecordProblem) {
    lineNumber += 1
    guard let object = (try? JSONValue(parsing: line))?.object else {
      // A line that a crash cut off; the next run added the newline.
      return
    }
    if let text = object["run"]?.string {
      guard let id = NotificationID(string: text), run == nil || run == id else {
        throw damage()
      }
      run = id
    } else if run == nil {
      throw RecordProblem(
        description: "the file does not contain results: its first line names no run")
    } else if let started = object["started"] {
      try readBlock(started)
    } else if let again = object["again"]?.array {
      for row in again.compactMap({ $0.integer }) { try set(Int(row), .doubtful) }
    } else if let row = object["row"]?.integer, let outcome = RowOutcome(object) {
      try set(Int(row), outcome.state)
    }
  }

  private mutating func readBlock(_ value: JSONValue) throws(RecordProblem) {
    guard let first = value["first"]?.integer, let last = value["last"]?.integer,
      first == Int64(states.count + 1), last >= first, last - first < 1 << 20,
      let digest = value["digest"]?.string.flatMap({ UInt64($0, radix: 16) })
    else { throw damage() }
    blocks.append(Block(rows: Int(first)...Int(last), digest: digest))
    states += Array(repeating: .doubtful, count: Int(last - first) + 1)
  }

  private mutating func set(_ row: Int, _ state: RowState) throws(RecordProblem) {
    guard states.indices.contains(row - 1) else { throw damage() }
    states[row - 1] = state
  }

  private func damage() -> RecordProblem {
    RecordProblem(description: "line \(lineNumber) does not follow from those before it")
  }

  // MARK: Writing

  package static func runLine(_ run: NotificationID, list: String) -> JSONValue {
    .members(["run": .string(run.text), "list": .string(list)])
  }

  package static func startLine(_ block: Block) -> JSONValue {
    .members([
      "started": .members([
        "first": .integer(Int64(block.rows.lowerBound)),
        "last": .integer(Int64(block.rows.upperBound)),
        "digest": .string(String(block.digest, radix: 16)),
      ])
    ])
  }

  package static func againLine(_ rows: [Int]) -> JSONValue {
    .members(["again": .array(rows.map { .integer(Int64($0)) })])
  }

  package static func line(
    row: Int, to recipient: RowRecipient?, id: NotificationID, _ outcome: RowOutcome
  ) -> JSONValue {
    var members = [
      JSONObject.Member(key: "row", value: .integer(Int64(row))),
      JSONObject.Member(key: "outcome", value: .string(outcome.word)),
    ]
    func put(_ key: String, _ value: JSONValue?) {
      if let value { members.append(JSONObject.Member(key: key, value: value)) }
    }
    if let recipient { put(recipient.key, .string(recipient.text)) }
    put("apns_id", .string(id.text))
    switch outcome {
    case .accepted(let uniqueID): put("unique_id", uniqueID.map(JSONValue.string))
    case .rejected(let status, let reason, let timestamp):
      put("status", .integer(Int64(status)))
      put("reason", .string(reason))
      put("timestamp", timestamp.map(JSONValue.integer))
    case .unknown(let cause, let mayBeTaken):
      put("cause", .string(cause))
      put("retry_may_duplicate", .bool(mayBeTaken))
    case .invalid(let problem): put("problem", .string(problem))
    }
    return .object(JSONObject(members))
  }
}

extension RowOutcome {
  /// The value of `outcome`, the same as for a single push.
  package var word: String {
    switch self {
    case .accepted: "accepted"
    case .rejected: "rejected"
    case .unknown: "unknown"
    case .invalid: "invalid"
    }
  }

  fileprivate init?(_ line: JSONObject) {
    switch line["outcome"]?.string {
    case "accepted": self = .accepted(uniqueID: line["unique_id"]?.string)
    case "rejected":
      self = .rejected(
        status: line["status"]?.integer.flatMap(UInt16.init(exactly:)) ?? 0,
        reason: line["reason"]?.string ?? "", timestampMilliseconds: line["timestamp"]?.integer)
    case "unknown":
      // An unreadable outcome is treated as doubtful.
      self = .unknown(
        cause: line["cause"]?.string ?? "", mayBeTaken: line["retry_may_duplicate"]?.bool ?? true)
    case "invalid": self = .invalid(line["problem"]?.string ?? "")
    default: return nil
    }
  }
}

/// Detects a changed list: FNV-1a of the rows, each with a line end. Guards against mistakes, not attacks.
package struct RowDigest: Sendable, Equatable {
  package private(set) var value: UInt64 = 0xcbf2_9ce4_8422_2325

  package init() {}

  package mutating func add(_ row: [UInt8]) {
    for byte in row { add(byte) }
    add(0x0a)
  }

  private mutating func add(_ byte: UInt8) { value = (value ^ UInt64(byte)) &* 0x100_0000_01b3 }
}
