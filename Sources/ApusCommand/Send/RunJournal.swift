package import ApusModel
package import ApusWire

/// What became of a row.
package enum RowOutcome: Sendable, Equatable {
  case accepted(uniqueID: String?)
  case rejected(status: UInt16, reason: String, timestampMilliseconds: Int64?)
  case unknown(cause: String, mayBeTaken: Bool)
  /// Not sent, because no message can be made of it.
  case invalid(String)

  /// What it means for a later run.
  package var state: RowState {
    switch self {
    case .accepted: .settled
    // Credentials, too many requests and trouble of the service say nothing of the notification itself.
    case .rejected(let status, _, _):
      status == 403 || status == 429 || status >= 500 ? .notTaken : .settled
    case .unknown(_, let mayBeTaken): mayBeTaken ? .doubtful : .notTaken
    case .invalid: .notTaken
    }
  }
}

/// What the results of earlier runs say about a row.
package enum RowState: UInt8, Sendable {
  /// Nothing: it was certainly not sent.
  case unseen
  /// Its sending was begun, and its end is not known.
  case doubtful
  /// Accepted or refused for good.
  case settled
  /// Certainly not taken by the service.
  case notTaken
}

/// The results of a run, line by line: what is written while it goes on, and what a later run reads out of it.
///
/// Each line is a JSON object. The first one names the run. Before rows are sent, a line with `started` (rows from
/// `first` to `last`) or `again` (rows by number) is written and synced; after each row one with its `outcome`. So of a
/// run that was killed, rows under no such line were certainly not sent, and those without an outcome are in doubt. A
/// line that was cut off by a crash counts as not written.
package struct RunJournal: Sendable {
  /// Rows that are begun together, at most. They are in doubt together as well, where the run is killed.
  package static let blockRows = 256

  package struct Block: Sendable, Equatable {
    package var rows: ClosedRange<Int>
    /// Of the rows as they stand in the list.
    package var digest: UInt64

    package init(rows: ClosedRange<Int>, digest: UInt64) {
      self.rows = rows
      self.digest = digest
    }
  }

  /// The id that those of the notifications are counted from.
  package private(set) var run: NotificationID?
  package private(set) var blocks: [Block] = []
  private var states: [RowState] = []
  private var lineNumber = 0

  package init() {}

  package func state(of row: Int) -> RowState {
    row - 1 < states.count ? states[row - 1] : .unseen
  }

  /// Rows of earlier runs.
  package var rowCount: Int { states.count }

  /// The id of a row's notification: the same each time it is sent.
  package static func apnsID(run: NotificationID, row: Int) -> NotificationID {
    NotificationID(high: run.high, low: run.low &+ UInt64(row))
  }

  // MARK: Reading

  /// Takes in one line, without its end.
  package mutating func read(_ line: Span<UInt8>) throws(RecordProblem) {
    lineNumber += 1
    guard let object = (try? JSONValue(parsing: line))?.object else {
      // A line that a crash has cut off, and the newline that the next run put behind it.
      return
    }
    if let text = object["run"]?.string {
      let bytes = Array(text.utf8)
      guard let id = NotificationID(text: bytes.span), run == nil || run == id else {
        throw damage()
      }
      run = id
    } else if run == nil {
      throw RecordProblem(
        description: "the file is not one of results: its first line names no run")
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
    row: Int, token: String?, id: NotificationID, _ outcome: RowOutcome
  ) -> JSONValue {
    var members = [
      JSONObject.Member(key: "row", value: .integer(Int64(row))),
      JSONObject.Member(key: "outcome", value: .string(outcome.word)),
    ]
    func put(_ key: String, _ value: JSONValue?) {
      if let value { members.append(JSONObject.Member(key: key, value: value)) }
    }
    put("token", token.map(JSONValue.string))
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
  /// The value of `outcome`, as for a single push.
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
      // What cannot be read is not taken for harmless.
      self = .unknown(
        cause: line["cause"]?.string ?? "", mayBeTaken: line["retry_may_duplicate"]?.bool ?? true)
    case "invalid": self = .invalid(line["problem"]?.string ?? "")
    default: return nil
    }
  }
}

/// Tells whether a list is the same as before: FNV-1a of the rows, each with an end. Against slips, not against malice.
package struct RowDigest: Sendable, Equatable {
  package private(set) var value: UInt64 = 0xcbf2_9ce4_8422_2325

  package init() {}

  package mutating func add(_ row: [UInt8]) {
    for byte in row { add(byte) }
    add(0x0a)
  }

  private mutating func add(_ byte: UInt8) { value = (value ^ UInt64(byte)) &* 0x100_0000_01b3 }
}
