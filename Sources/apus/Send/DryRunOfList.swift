import ApusClient
import ApusCommand
import ApusModel
import ApusWire

/// `apus send --tokens --dry-run`: checks every row, shows the first ones as they would be sent, and counts the valid
/// ones.
struct DryRunOfList {
  /// How many rows are shown in full, and how many invalid rows are named.
  private static let shownRows = 3
  private static let namedRows = 20

  private let invocation: Invocation
  private let list: RecipientList
  private let template: MessageTemplate
  private var topics: TopicMemo
  private var good = 0
  private var invalid = 0
  private var findings: [LintRule: (count: Int, first: LintFinding, row: Int)] = [:]

  init(
    _ invocation: Invocation, _ list: RecipientList, _ template: MessageTemplate,
    _ credentials: SendCredentials
  ) {
    self.invocation = invocation
    self.list = list
    self.template = template
    topics = TopicMemo(credentials)
  }

  func run() throws(CommandFailure) {
    var work = self
    try work.look()
    try work.report()
  }

  private mutating func look() throws(CommandFailure) {
    var reader = RecordReader(format: invocation[SendOptions.format])
    var isAtEnd = false
    while !isAtEnd {
      guard let piece = try list.next(whileGoing: { true }) else { return }
      isAtEnd = piece.isEmpty
      reader.append(piece)
      do throws(RecordProblem) {
        while let record = try reader.next() { look(at: record) }
      } catch {
        throw CommandFailure(.usage, "\(list.name): \(error)")
      }
    }
  }

  private mutating func look(at record: Record) {
    do throws(RowProblem) {
      let message = try template.message(for: record)
      let request = PushRequest(message, topic: try? topics.topic(for: message))
      if let problem = DryRun.problem(with: request) { throw RowProblem(problem) }
      for finding in request.lint(nowSeconds: Process.nowSeconds) {
        findings[finding.rule, default: (0, finding, record.number)].count += 1
      }
      good += 1
      if record.number <= Self.shownRows, !invocation.isOn(ApusOptions.json) {
        Output.standard("row \(record.number)\n\(DryRun.text(request))\n")
      }
    } catch {
      invalid += 1
      if invalid <= Self.namedRows {
        Output.diagnostic(
          "apus send: row \(record.number) \(NotificationCard.harmless(error.text))\n")
      }
    }
  }

  private var sortedFindings: [(count: Int, first: LintFinding, row: Int)] {
    LintRule.allCases.compactMap { findings[$0] }
  }

  private func report() throws(CommandFailure) {
    let json = JSONValue.members([
      "outcome": .string("dry run"), "good": .integer(Int64(good)),
      "invalid": .integer(Int64(invalid)),
      "findings": .array(
        sortedFindings.map { finding in
          .members([
            "rule": .string(finding.first.rule.rawValue), "count": .integer(Int64(finding.count)),
            "severity": .string(finding.first.severity.rawValue),
            "first_row": .integer(Int64(finding.row)),
          ])
        }),
    ])
    if !invocation.isOn(ApusOptions.json) {
      Output.standard(
        "  \(Digits.grouped(good)) rows valid, \(Digits.grouped(invalid)) invalid\n")
      for finding in sortedFindings {
        let text = NotificationCard.harmless("\(finding.first)")
        Output.standard(
          "  \(Digits.grouped(finding.count)) of them, first in row \(finding.row): \(text)\n")
      }
    }
    let isBad =
      invalid > 0 || sortedFindings.contains { $0.first.severity == .error }
      || invocation.isOn(SendOptions.strict) && !findings.isEmpty
    guard isBad else {
      if invocation.isOn(ApusOptions.json) { Output.json(json) }
      return
    }
    var failure = CommandFailure(.failed, "some rows cannot be sent", remedy: "Nothing was sent.")
    failure.report = json
    throw failure
  }
}
