import ApusModel
import ApusWire
import Testing

@testable import ApusCommand

@Suite("The results of a run tell the next one what was sent")
struct RunJournalTests {
  private func journal(_ lines: String) throws -> RunJournal {
    var journal = RunJournal()
    for line in lines.split(separator: "\n", omittingEmptySubsequences: false) {
      let bytes = Array(line.utf8)
      try journal.read(bytes.span)
    }
    return journal
  }

  private static let run = #"{"run":"123E4567-E89B-12D3-A456-426614174000","list":"f"}"#

  @Test("Rows that were not started are unseen, those without an outcome are doubtful")
  func states() throws {
    let journal = try journal(
      """
      \(Self.run)
      {"started":{"first":1,"last":9,"digest":"ff"}}
      {"row":1,"outcome":"accepted","token":"0a","apns_id":"x"}
      {"row":2,"outcome":"rejected","status":410,"reason":"Unregistered","timestamp":7}
      {"row":3,"outcome":"rejected","status":429,"reason":"TooManyRequests"}
      {"row":4,"outcome":"rejected","status":503,"reason":"Shutdown"}
      {"row":5,"outcome":"unknown","cause":"connection lost","retry_may_duplicate":true}
      {"row":6,"outcome":"unknown","cause":"connection failed","retry_may_duplicate":false}
      {"row":7,"outcome":"invalid","problem":"has no token"}
      {"row":8,"outcome":"unknown"}
      {"row":9,"outcome":"acc
      """)
    let states = (1...10).map { journal.state(of: $0) }
    #expect(
      states == [
        .settled, .settled, .notTaken, .notTaken, .doubtful, .notTaken, .notTaken, .doubtful,
        .doubtful, .unseen,
      ])
    #expect(journal.blocks == [RunJournal.Block(rows: 1...9, digest: 0xff)])
    #expect(journal.rowCount == 9)
  }

  @Test("A row that is started again is doubtful again, whatever its earlier state")
  func again() throws {
    let lines = """
      \(Self.run)
      {"started":{"first":1,"last":2,"digest":"1"}}
      {"row":1,"outcome":"rejected","status":500,"reason":"a"}
      {"row":2,"outcome":"rejected","status":500,"reason":"a"}
      {"again":[1,2]}
      {"row":2,"outcome":"accepted"}
      """
    let journal = try journal(lines)
    #expect(journal.state(of: 1) == .doubtful && journal.state(of: 2) == .settled)
  }

  @Test("Written results can be read, and a row keeps its id")
  func roundTrip() throws {
    let run = NotificationID(high: 1, low: .max)
    let outcomes: [RowOutcome] = [
      .accepted(uniqueID: "u"), .accepted(uniqueID: nil),
      .rejected(status: 410, reason: "Unregistered", timestampMilliseconds: 5),
      .rejected(status: 403, reason: "x", timestampMilliseconds: nil),
      .unknown(cause: "c", mayBeTaken: true), .unknown(cause: "c", mayBeTaken: false),
      .invalid("p"),
    ]
    var lines = [
      RunJournal.runLine(run, list: "f\n"),
      RunJournal.startLine(.init(rows: 1...7, digest: .max)), RunJournal.againLine([1, 7]),
    ]
    for (index, outcome) in outcomes.enumerated() {
      let id = RunJournal.apnsID(run: run, row: index + 1)
      lines.append(RunJournal.line(row: index + 1, to: .token("0a"), id: id, outcome))
    }
    let journal = try journal(lines.map(\.text).joined(separator: "\n"))
    #expect(journal.run == run)
    for (index, outcome) in outcomes.enumerated() {
      #expect(journal.state(of: index + 1) == outcome.state)
    }
    #expect(RunJournal.apnsID(run: run, row: 1) == NotificationID(high: 1, low: 0))
  }

  @Test(
    "A file without results, or with a gap, is rejected",
    arguments: [
      #"{"row":1}"#, run + "\n" + #"{"started":{"first":2,"last":3,"digest":"1"}}"#,
      run + "\n" + #"{"started":{"first":1,"last":0,"digest":"1"}}"#,
      run + "\n" + #"{"row":1,"outcome":"accepted"}"#, run + "\n" + #"{"again":[1]}"#,
      run + "\n" + run.replacing("4000", with: "4001"),
      run + "\n" + #"{"started":{"first":1,"last":9000000000,"digest":"1"}}"#,
    ])
  func damaged(lines: String) {
    #expect(throws: RecordProblem.self) { try journal(lines) }
  }

  @Test("A digest depends on the boundaries of rows")
  func digest() {
    func digest(_ rows: String...) -> UInt64 {
      var digest = RowDigest()
      for row in rows { digest.add(Array(row.utf8)) }
      return digest.value
    }
    // FNV-1a of no bytes, and of "a" and a line feed.
    #expect(digest() == 0xcbf2_9ce4_8422_2325)
    let ofA: UInt64 = 0xaf63_dc4c_8601_ec8c
    #expect(digest("a") == (ofA ^ 0x0a) &* 0x100_0000_01b3)
    #expect(digest("ab", "c") != digest("a", "bc"))
  }
}

@Suite("The totals of a run, and when it should end")
struct RunTallyTests {
  private let dead = RowOutcome.rejected(
    status: 410, reason: "Unregistered", timestampMilliseconds: 1)

  @Test("Outcomes are counted, by reason, most frequent first")
  func counts() {
    var tally = RunTally()
    for _ in 0..<1234 { tally.count(.accepted(uniqueID: nil)) }
    for _ in 0..<3 { tally.count(dead) }
    tally.count(.unknown(cause: "timed out", mayBeTaken: true))
    tally.count(.invalid("has no token"))
    tally.leftInDoubt = 2
    #expect(!tally.isAllAccepted && tally.stop == nil && tally.done == 1239)
    #expect(
      tally.text(milliseconds: 2000) == """
                1,234  accepted
                    3  rejected
                    1  unknown
                    1  invalid
                    2  left doubtful
                    3    410 Unregistered
                    1    has no token
                    1    timed out
          2.0 s, 619 per second

        """)
    #expect(
      tally.json(milliseconds: 7).text
        == #"{"event":"summary","accepted":1234,"rejected":3,"unknown":1,"invalid":1,"#
        + #""settled_before":0,"left_in_doubt":2,"milliseconds":7,"#
        + #""reasons":{"410 Unregistered":3,"has no token":1,"timed out":1}}"#)
  }

  @Test("A rejected credential ends a run, a rejected device token does not")
  func credential() {
    var tally = RunTally()
    tally.count(dead)
    #expect(tally.stop == nil)
    tally.count(.rejected(status: 403, reason: "ExpiredProviderToken", timestampMilliseconds: nil))
    #expect(tally.stop == .credentialRefused(reason: "ExpiredProviderToken"))
    tally.interrupt()
    #expect(tally.stop == .credentialRefused(reason: "ExpiredProviderToken"))
  }

  @Test("Only a service that was never reached ends a run")
  func unreachable() {
    func run(first: RowOutcome?) -> RunTally.Stop? {
      var tally = RunTally()
      if let first { tally.count(first) }
      for _ in 0..<RunTally.connectFailures {
        tally.count(.unknown(cause: "refused", mayBeTaken: false), isFailureToConnect: true)
      }
      return tally.stop
    }
    #expect(run(first: nil) == .unreachable(cause: "refused"))
    #expect(run(first: .invalid("a")) == .unreachable(cause: "refused"))
    #expect(run(first: .accepted(uniqueID: nil)) == nil)
  }

  @Test("A short list also reports a service that was never reached")
  func unreachableShort() {
    var tally = RunTally()
    tally.finish()
    #expect(tally.stop == nil && tally.isAllAccepted)
    tally.count(.unknown(cause: "refused", mayBeTaken: false), isFailureToConnect: true)
    #expect(tally.stop == nil)
    tally.finish()
    #expect(tally.stop == .unreachable(cause: "refused"))
  }

  @Test("The number of counted reasons is bounded")
  func bounded() {
    var tally = RunTally()
    for number in 0..<1000 {
      tally.count(.rejected(status: 400, reason: "\(number)", timestampMilliseconds: nil))
    }
    #expect(tally.reasons.count == 101 && tally.reasons["other reasons"] == 900)
  }
}

@Suite("Progress and pace of a run")
struct ProgressTests {
  private func line(_ read: Int64, of list: Int64?, columns: Int) -> String {
    ProgressLine(
      done: 520_000, failed: 12, settledBefore: 0, readRows: 520_000, readBytes: read,
      listBytes: list, milliseconds: 65_000, perSecond: 8000
    ).text(columns: columns)
  }

  /// The progress line of a run over 1,000 rows of 10 bytes that has read 500 rows.
  private func line(done: Int, settledBefore: Int = 0) -> String {
    ProgressLine(
      done: done, failed: 0, settledBefore: settledBefore, readRows: 500, readBytes: 5000,
      listBytes: 10_000, milliseconds: 60_000, perSecond: 10
    ).text(columns: 100)
  }

  @Test("Progress counts rows with an outcome, not rows read")
  func outcomes() {
    #expect(line(done: 100).hasPrefix(" 10% █"))
    #expect(line(done: 100).hasSuffix("9:00 left"))
    #expect(line(done: 500).hasPrefix(" 50% █"))
  }

  @Test("The time left is based on the rows of this run only")
  func resumed() {
    #expect(line(done: 100, settledBefore: 100).hasPrefix(" 20% █"))
    #expect(line(done: 100, settledBefore: 100).hasSuffix("8:00 left"))
    #expect(!line(done: 0, settledBefore: 400).contains("left"))
  }

  @Test("The line fits the terminal")
  func line() {
    #expect(
      line(50, of: 100, columns: 100)
        == " 50% " + String(repeating: "█", count: 15) + String(repeating: "░", count: 15)
        + " 520,000 done, 12 failed, 8,000 per second, 1:05 left")
    #expect(line(1, of: nil, columns: 100) == "520,000 done, 12 failed, 8,000 per second")
    #expect(line(100, of: 100, columns: 90).hasPrefix("100% █"))
    #expect(line(200, of: 100, columns: 90).hasPrefix("100% █"))
    for columns in 1...120 { #expect(line(50, of: 100, columns: columns).count <= columns) }
  }

  @Test("Rows keep their pace, and a pause is not followed by a burst")
  func pace() {
    var pace = Pace(rowsPerSecond: 100)
    var now: UInt64 = 1_000_000_000_000
    func pass(_ count: Int) -> UInt64 {
      let start = now
      for _ in 0..<count { now += pace.delay(nowNanoseconds: now) }
      return now - start
    }
    // The rows of a tenth of a second are not delayed.
    #expect(pass(11) == 0)
    #expect(pass(100) == 1_000_000_000)
    now += 60_000_000_000
    #expect(pass(11) == 0)
    #expect(pass(100) == 1_000_000_000)
  }
}
