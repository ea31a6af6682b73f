import Testing
import UnittestRunner

/// A part of the page's tests, in a suite of its own so that it can run beside the others.
@Suite("The console's inbox in a browser")
struct InboxTests {
  @Test(
    "Against a mock of the API, with ten thousand pushes and with bad input",
    .timeLimit(.minutes(30)))
  func inbox() throws {
    let outcome = try Python.run("run.py", ["inbox"])
    #expect(outcome.count > 35)
    #expect(outcome.isGood, "\(outcome.report)")
  }
}

/// Another part, for the same reason.
@Suite("The console of a service in a browser")
struct AdministrationTests {
  @Test("Against a mock of the API", .timeLimit(.minutes(30)))
  func service() throws {
    let outcome = try Python.run("run.py", ["service"])
    #expect(outcome.count > 20)
    #expect(outcome.isGood, "\(outcome.report)")
  }
}

/// The page in Chromium. The tests are the Python files in the folder Browser.
@Suite("The console in a browser", .serialized)
struct BrowserTests {
  @Test("All other views, against a mock of the API", .timeLimit(.minutes(30)))
  func views() throws {
    let outcome = try Python.run("run.py", ["views"])
    #expect(outcome.count > 30)
    #expect(outcome.isGood, "\(outcome.report)")
  }

  @Test("With a development service that aioapns and curl send to", .timeLimit(.minutes(30)))
  func service() throws {
    let outcome = try Python.run(
      "service_tests.py", [Python.apus], python: Python.withClients)
    #expect(outcome.count > 5)
    #expect(outcome.isGood, "\(outcome.report)")
  }

  @Test("With a service and a real device, from sign-in to the ledger", .timeLimit(.minutes(30)))
  func serving() throws {
    let outcome = try Python.run("serve_tests.py", [Python.apus])
    #expect(outcome.count > 5)
    #expect(outcome.isGood, "\(outcome.report)")
  }

  @Test(
    "A run that fails, or runs no tests, is a failure",
    arguments: [
      ("FAIL: a\n\nRan 3 tests in 0.1s\n\nFAILED (failures=1)\n", 3, false),
      ("\nRan 0 tests in 0.0s\n\nOK\n", 0, false), ("Traceback: no chromium\n", 0, false),
      ("a ... ok\n\nRan 2 tests in 0.1s\n\nOK\n", 2, true),
    ])
  func outcomes(text: String, count: Int, isGood: Bool) {
    let outcome = UnittestRun(output: text)
    #expect(outcome.count == count)
    #expect(outcome.isGood == isGood)
  }
}
