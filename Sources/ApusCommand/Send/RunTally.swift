package import ApusWire

/// The totals of a run so far.
package struct RunTally: Sendable {
  package private(set) var accepted = 0
  package private(set) var rejected = 0
  package private(set) var unknown = 0
  package private(set) var invalid = 0
  /// Rows that an earlier run settled.
  package var settledBefore = 0
  /// Rows that are doubtful after an earlier run and were not sent again.
  package var leftInDoubt = 0
  /// Counts by reason. A service can send any word, so beyond a limit further reasons are counted together.
  package private(set) var reasons: [String: Int] = [:]
  /// Rows read from the list, and the bytes up to the end of the last one.
  package private(set) var readRows = 0
  package private(set) var readBytes: Int64 = 0
  private var failuresToConnect = 0
  private var lastCause = ""
  /// Why the run should end early.
  package private(set) var stop: Stop?

  package enum Stop: Sendable, Equatable {
    /// The service rejects the credential and would reject every row.
    case credentialRefused(reason: String)
    /// Every attempt to connect has failed since the beginning.
    case unreachable(cause: String)
    case interrupted
  }

  private static let reasonCount = 100
  /// How many rows may fail to connect, before the first succeeds, until the run stops.
  package static let connectFailures = 1000

  package init() {}

  package mutating func noteRead(rows: Int, bytes: Int64) {
    readRows = rows
    readBytes = bytes
  }

  /// Rows that have an outcome of this run.
  package var done: Int { accepted + rejected + unknown + invalid }

  package var isAllAccepted: Bool { rejected + unknown + invalid + leftInDoubt == 0 && stop == nil }

  /// - Parameter isFailureToConnect: No connection could be made.
  package mutating func count(_ outcome: RowOutcome, isFailureToConnect: Bool = false) {
    switch outcome {
    case .accepted: accepted += 1
    case .rejected(let status, let reason, _):
      rejected += 1
      count("\(status) \(reason)")
      if status == 403, stop == nil { stop = .credentialRefused(reason: reason) }
    case .unknown(let cause, _):
      unknown += 1
      count(isFailureToConnect ? "connection failed" : cause)
      if isFailureToConnect { failuresToConnect += 1 }
      lastCause = cause
      if neverConnected, failuresToConnect >= Self.connectFailures, stop == nil {
        stop = .unreachable(cause: cause)
      }
    case .invalid(let problem):
      invalid += 1
      count(problem)
    }
  }

  private var neverConnected: Bool { failuresToConnect > 0 && failuresToConnect == done - invalid }

  /// Call after the last row: sets `stop` for a short list too if every connection failed.
  package mutating func finish() {
    if neverConnected, stop == nil { stop = .unreachable(cause: lastCause) }
  }

  package mutating func interrupt() { if stop == nil { stop = .interrupted } }

  private mutating func count(_ reason: String) {
    let key = reasons[reason] != nil || reasons.count < Self.reasonCount ? reason : "other reasons"
    reasons[key, default: 0] += 1
  }

  // MARK: The summary

  package func json(milliseconds: Int64) -> JSONValue {
    .members([
      "event": .string("summary"), "accepted": .integer(Int64(accepted)),
      "rejected": .integer(Int64(rejected)), "unknown": .integer(Int64(unknown)),
      "invalid": .integer(Int64(invalid)), "settled_before": .integer(Int64(settledBefore)),
      "left_in_doubt": .integer(Int64(leftInDoubt)), "milliseconds": .integer(milliseconds),
      "reasons": .object(
        JSONObject(
          sortedReasons.map { JSONObject.Member(key: $0.key, value: .integer(Int64($0.value))) })),
    ])
  }

  /// The summary as text.
  package func text(milliseconds: Int64) -> String {
    var rows = [("accepted", accepted), ("rejected", rejected), ("unknown", unknown)]
    rows += [
      ("invalid", invalid), ("done before", settledBefore), ("left doubtful", leftInDoubt),
    ]
    rows = rows.filter { $0.1 > 0 || $0.0 == "accepted" }
    var text = ""
    for (name, count) in rows { text += "  \(Self.column(Digits.grouped(count)))  \(name)\n" }
    for (reason, count) in sortedReasons {
      text += "  \(Self.column(Digits.grouped(count)))    \(NotificationCard.harmless(reason))\n"
    }
    let perSecond = milliseconds > 0 ? Int64(done) * 1000 / milliseconds : 0
    let seconds = "\(milliseconds / 1000).\(milliseconds % 1000 / 100)"
    return text + "  \(seconds) s, \(Digits.grouped(Int(perSecond))) per second\n"
  }

  private var sortedReasons: [(key: String, value: Int)] {
    reasons.sorted { ($1.value, $0.key) < ($0.value, $1.key) }
  }

  private static func column(_ text: String) -> String {
    String(repeating: " ", count: max(0, 11 - text.count)) + text
  }
}

package enum Digits {
  /// `1234567` as `1,234,567`.
  package static func grouped(_ number: Int) -> String {
    var text = ""
    for (index, digit) in String(number).reversed().enumerated() {
      if index > 0, index % 3 == 0, digit != "-" { text.append(",") }
      text.append(digit)
    }
    return String(text.reversed())
  }
}

/// The progress line of a run.
package struct ProgressLine: Sendable {
  package var done: Int
  package var failed: Int
  /// Rows that an earlier run settled.
  package var settledBefore: Int
  /// Rows read and their bytes; and the bytes of the whole list, if known.
  package var readRows: Int
  package var readBytes: Int64
  package var listBytes: Int64?
  package var milliseconds: Int64
  /// Recent rows per second.
  package var perSecond: Int

  package init(
    done: Int, failed: Int, settledBefore: Int, readRows: Int, readBytes: Int64,
    listBytes: Int64?, milliseconds: Int64, perSecond: Int
  ) {
    self.done = done
    self.failed = failed
    self.settledBefore = settledBefore
    self.readRows = readRows
    self.readBytes = readBytes
    self.listBytes = listBytes
    self.milliseconds = milliseconds
    self.perSecond = perSecond
  }

  /// At most `columns` columns.
  package func text(columns: Int) -> String {
    var tail = " \(Digits.grouped(done)) done"
    if failed > 0 { tail += ", \(Digits.grouped(failed)) failed" }
    tail += ", \(Digits.grouped(perSecond)) per second"
    guard let listBytes, listBytes > 0 else {
      return String((String(tail.dropFirst())).prefix(columns))
    }
    // Rows are read ahead of their outcomes, in whole chunks of the file.
    let settled = done + settledBefore
    let settledPart = readRows > 0 ? Double(settled) / Double(readRows) : 0
    let part = min(max(Double(readBytes) / Double(listBytes) * settledPart, 0), 1)
    if part > 0.01, part < 1, done > 0 {
      let rowsLeft = Double(settled) / part * (1 - part)
      let left = Int64(Double(milliseconds) / Double(done) * rowsLeft) / 1000
      tail += ", \(Self.time(left)) left"
    }
    let percent = "\(Int(part * 100))%"
    let head = String(repeating: " ", count: 4 - percent.count) + percent
    let width = min(30, columns - head.count - tail.count - 3)
    guard width >= 5 else { return String((head + tail).prefix(columns)) }
    let filled = Int(part * Double(width))
    let bar = String(repeating: "█", count: filled) + String(repeating: "░", count: width - filled)
    return "\(head) \(bar)\(tail)"
  }

  private static func time(_ seconds: Int64) -> String {
    let rest = seconds % 60
    let minutes = seconds / 60 % 60
    func two(_ number: Int64) -> String { number < 10 ? "0\(number)" : "\(number)" }
    return seconds >= 3600
      ? "\(seconds / 3600):\(two(minutes)):\(two(rest))" : "\(minutes):\(two(rest))"
  }
}

/// Limits a run to a number of rows per second.
package struct Pace: Sendable {
  private let nanosecondsPerRow: UInt64
  private var next: UInt64 = 0

  package init(rowsPerSecond: Int) { nanosecondsPerRow = 1_000_000_000 / UInt64(rowsPerSecond) }

  /// Nanoseconds until the next row may be sent. After a pause, at most the rows of a tenth of a second are sent at
  /// once.
  package mutating func delay(nowNanoseconds now: UInt64) -> UInt64 {
    let credit: UInt64 = 100_000_000
    if next + credit < now { next = now - credit }
    defer { next += nanosecondsPerRow }
    return next > now ? next - now : 0
  }
}
