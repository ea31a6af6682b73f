import ApusModel
import ApusServer
import ApusWire

/// All violations since the start, counted by rule, with the first pushes of each.
struct ViolationReport: Sendable {
  struct Sample: Sendable {
    var number: UInt64
    var violation: Violation
    var topic: String?
    var apnsID: String?
    var receivedMilliseconds: Int64
  }

  struct Entry: Sendable {
    var severity: LintRule.Severity
    var count = 0
    var samples: [Sample] = []
  }

  private var entries: [String: Entry] = [:]

  /// Number of pushes kept per rule.
  private static let samples = 20

  init() {}

  mutating func add(_ violation: Violation, of push: CapturedPush) {
    var entry = entries[violation.rule] ?? Entry(severity: violation.severity)
    entry.count += 1
    if entry.samples.count < Self.samples {
      entry.samples.append(
        Sample(
          number: push.number, violation: violation, topic: push.request.topic,
          apnsID: push.exchange.apnsID, receivedMilliseconds: push.request.receivedMilliseconds))
    }
    entries[violation.rule] = entry
  }

  func count(_ severity: LintRule.Severity) -> Int {
    entries.values.reduce(0) { $1.severity == severity ? $0 + $1.count : $0 }
  }

  /// Number of violations with this severity or higher.
  func count(atLeast severity: LintRule.Severity) -> Int {
    // The cases are in order of severity, highest first.
    let all = LintRule.Severity.allCases
    guard let last = all.firstIndex(of: severity) else { return 0 }
    return all[...last].reduce(0) { $0 + count($1) }
  }

  var total: Int { entries.values.reduce(0) { $0 + $1.count } }

  // MARK: As JSON

  func write(to writer: inout JSONWriter) {
    writer.beginObject()
    writer.key("counts")
    writer.beginObject()
    for severity in LintRule.Severity.allCases {
      writer.integer("\(severity.rawValue)", Int64(count(severity)))
    }
    writer.endObject()
    writer.key("rules")
    writer.beginArray()
    for (rule, entry) in sorted {
      writer.beginObject()
      writer.text("rule", rule)
      writer.text("severity", entry.severity.rawValue)
      writer.text("source", Self.source(rule))
      writer.integer("count", Int64(entry.count))
      writer.key("pushes")
      writer.beginArray()
      for sample in entry.samples { Self.write(sample, to: &writer) }
      writer.endArray()
      writer.endObject()
    }
    writer.endArray()
    writer.endObject()
  }

  private static func write(_ sample: Sample, to writer: inout JSONWriter) {
    writer.beginObject()
    writer.integer("number", Int64(clamping: sample.number))
    writer.text("message", sample.violation.message)
    writer.text("path", sample.violation.path)
    writer.text("topic", sample.topic)
    writer.text("apnsID", sample.apnsID)
    writer.integer("receivedMilliseconds", sample.receivedMilliseconds)
    writer.endObject()
  }

  private var sorted: [(rule: String, entry: Entry)] {
    func weight(_ entry: Entry) -> Int {
      LintRule.Severity.allCases.firstIndex(of: entry.severity) ?? 0
    }
    return entries.map { ($0.key, $0.value) }.sorted {
      (weight($0.1), $0.0) < (weight($1.1), $1.0)
    }
  }

  private static func source(_ rule: String) -> String? {
    LintRule(rawValue: rule)?.source ?? ConnectionRule(rawValue: rule)?.source
  }

  // MARK: As JUnit XML

  /// A test case for each rule, so that reports of all runs have the same cases. A rule of severity `note` never fails.
  func junit() -> String {
    let rules =
      LintRule.allCases.map { ($0.rawValue, $0.severity) }
      + ConnectionRule.allCases.map { ($0.rawValue, $0.severity) }
    let failing = rules.count { rule, severity in severity != .note && entries[rule] != nil }
    var text = """
      <?xml version="1.0" encoding="UTF-8"?>
      <testsuites name="apus dev" tests="\(rules.count)" failures="\(failing)">
        <testsuite name="pushes" tests="\(rules.count)" failures="\(failing)" errors="0" skipped="0">

      """
    for (rule, severity) in rules {
      text += "    <testcase classname=\"apus.\(severity.rawValue)\" name=\"\(rule)\""
      guard let entry = entries[rule] else {
        text += "/>\n"
        continue
      }
      text += ">\n" + Self.failure(rule, severity, entry) + "    </testcase>\n"
    }
    return text + "  </testsuite>\n</testsuites>\n"
  }

  private static func failure(
    _ rule: String, _ severity: LintRule.Severity, _ entry: Entry
  ) -> String {
    let lines = entry.samples.map { sample in
      let place = sample.violation.path.map { "\($0) " } ?? ""
      return "push \(sample.number): \(place)\(sample.violation.message)"
    }
    let words = escaped(lines.joined(separator: "\n"))
    let pushes = entry.count == 1 ? "1 push" : "\(entry.count) pushes"
    guard severity != .note else { return "      <system-out>\(words)</system-out>\n" }
    return "      <failure type=\"\(severity.rawValue)\" message=\"\(rule): \(pushes)\">"
      + "\(words)</failure>\n"
  }

  /// Escapes text for XML 1.0, which does not allow most control characters.
  static func escaped(_ text: String) -> String {
    text.unicodeScalars.reduce(into: "") { escaped, scalar in
      switch scalar {
      case "&": escaped += "&amp;"
      case "<": escaped += "&lt;"
      case ">": escaped += "&gt;"
      case "\"": escaped += "&quot;"
      case "\n", "\t": escaped.unicodeScalars.append(scalar)
      case "\u{0}"..<"\u{20}", "\u{fffe}", "\u{ffff}": escaped += "\u{fffd}"
      default: escaped.unicodeScalars.append(scalar)
      }
    }
  }
}
