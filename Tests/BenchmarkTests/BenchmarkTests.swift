import Foundation
import Testing
import UnittestRunner

/// The scripts in `Benchmarks`, `scripts/test.py` and the account of `make cluster` have tests in Python; this runs
/// them with all other tests.
@Suite("The tools of benchmarks and tests")
struct BenchmarkTests {
  @Test("Goals, spreads, comparisons and ceilings are evaluated correctly")
  func benchmarks() throws { try run("tools_tests.py", atLeast: 16) }

  @Test("The events of test processes give durations, failures and one verdict")
  func runner() throws { try run("runner_tests.py", atLeast: 7) }

  @Test("The account of a cluster's faults finds what it must, and allows what it may")
  func account() throws { try run("account_tests.py", atLeast: 12) }

  private func run(_ name: String, atLeast expected: Int) throws {
    let script = URL(filePath: #filePath).deletingLastPathComponent().appending(path: name)
    let run = try UnittestRun(script)
    #expect(run.count >= expected && run.status == 0, "\(run.output)")
  }
}
