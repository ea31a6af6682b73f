import ApusAdmin
import ApusLog
import Testing

/// An operator searches the log and the metrics for the words of the page.
@Suite("The page about operation says how limits show")
struct LimitPageTests {
  private let rows: [[String]]

  init() throws {
    rows = try DocumentationPage.rows("operations", under: "Limits that peers meet")
    try #require(rows.count > 10)
  }

  @Test("Each line is one that the service writes")
  func lines() {
    // It is written every ten seconds at most, and not by the limit for each kind; `LimitMetricsTests` checks it.
    let others: Set = ["untrusted connections refused"]
    let kinds = Set(Log.Kind.allCases.map(\.event.description)).union(others)
    for row in rows where row[1] != "the same line" {
      let line = row[1].filter { $0 != "`" }
      #expect(kinds.contains(line), "\(line)")
    }
  }

  @Test("Each limit that ends connections is there, and none besides")
  func limits() {
    let sign = #"`ended{limit=""#
    let named = rows.map { $0[0] }.filter { $0.hasPrefix(sign) }.map { metric in
      String(metric.dropFirst(sign.count).prefix { $0 != "\"" })
    }
    #expect(named.sorted() == ConnectionLimit.allCases.map(\.rawValue).sorted())
  }
}
