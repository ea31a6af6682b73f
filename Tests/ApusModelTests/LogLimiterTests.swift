import ApusModel
import Testing

@Suite("Limits on log lines that untrusted peers can cause")
struct LogLimiterTests {
  @Test(
    "A kind may write its lines in a window, and the next window reports how many were suppressed")
  func window() {
    var limiter = LogLimiter(kinds: 1, lines: 2, windowSeconds: 60)
    #expect(limiter.admit(0, atMilliseconds: 1_000) == .write(suppressedBefore: 0))
    #expect(limiter.admit(0, atMilliseconds: 2_000) == .write(suppressedBefore: 0))
    for time in 3_000..<3_005 {
      #expect(limiter.admit(0, atMilliseconds: UInt64(time)) == .suppress)
    }
    #expect(limiter.admit(0, atMilliseconds: 60_999) == .suppress)
    #expect(limiter.admit(0, atMilliseconds: 61_000) == .write(suppressedBefore: 6))
    #expect(limiter.admit(0, atMilliseconds: 61_001) == .write(suppressedBefore: 0))
    #expect(limiter.suppressedTotal(0) == 6)
  }

  @Test(
    "The suppressed lines of a kind that fell silent are reported once, when its window is over")
  func silence() {
    var limiter = LogLimiter(kinds: 2, lines: 1, windowSeconds: 60)
    _ = limiter.admit(1, atMilliseconds: 0)
    _ = limiter.admit(1, atMilliseconds: 0)
    #expect(limiter.takeSuppressed(atMilliseconds: 59_999).isEmpty)
    #expect(limiter.takeSuppressed(atMilliseconds: 60_000) == [.init(kind: 1, lineCount: 1)])
    #expect(limiter.takeSuppressed(atMilliseconds: 60_000).isEmpty)
    #expect(limiter.admit(1, atMilliseconds: 60_001) == .write(suppressedBefore: 0))
    #expect(limiter.suppressedTotal(1) == 1)
  }

  @Test("A flood of one kind suppresses no line of another")
  func kinds() {
    var limiter = LogLimiter(kinds: 2, lines: 1, windowSeconds: 60)
    for _ in 0..<1_000 { _ = limiter.admit(0, atMilliseconds: 0) }
    #expect(limiter.admit(1, atMilliseconds: 0) == .write(suppressedBefore: 0))
  }
}
