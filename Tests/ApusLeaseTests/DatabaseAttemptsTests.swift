import ApusLease
import Testing

@Suite("When a database that failed is tried again")
struct DatabaseAttemptsTests {
  private var attempts = DatabaseAttempts(count: 3)
  private var now: Int64 = 1_000_000

  /// An attempt that takes so long. Returns the pause after it.
  private mutating func fail(_ place: Int, taking milliseconds: Int64 = 0) -> Int64 {
    now += milliseconds
    return attempts.failed(place, fromMilliseconds: now - milliseconds, nowMilliseconds: now)
  }

  private func mayTry() -> [Int] {
    (0..<3).filter { attempts.mayTry($0, nowMilliseconds: now) }
  }

  @Test("One that refuses at once is tried again soon, and then within a second")
  mutating func refusing() {
    #expect(mayTry() == [0, 1, 2])
    for pause in [100, 200, 400, 800, 1000, 1000] as [Int64] {
      #expect(fail(1) == pause)
      now += pause - 1
      #expect(mayTry() == [0, 2])
      now += 1
      #expect(mayTry() == [0, 1, 2])
    }
  }

  @Test("Connections that are lost again and again are each replaced at once")
  mutating func lost() {
    for pause in [100, 200, 400] as [Int64] {
      #expect(fail(1) == pause)
      now += pause
      attempts.reached(1)
      #expect(mayTry() == [0, 1, 2])
      now += 3000
    }
    // Long after the last failure the next one is a first one.
    now += 20_000
    #expect(fail(1) == 100)
  }

  @Test("One that does not answer takes a fifth of the time")
  mutating func silent() {
    #expect(fail(1, taking: 2000) == 8000)
    now += 7999
    #expect(mayTry() == [0, 2])
    now += 1
    #expect(mayTry() == [0, 1, 2])
    #expect(fail(1, taking: 10_000) == 10_000)
  }

  @Test("Several that do not answer take no more than one, in turn")
  mutating func several() {
    _ = (fail(0, taking: 2000), fail(2, taking: 2000))
    now += 7999
    #expect(mayTry() == [1])
    now += 1
    for place in [0, 2, 0, 2] {
      #expect(mayTry() == [1, place].sorted())
      #expect(fail(place, taking: 1000) == 4000)
      now += 3999
      #expect(mayTry() == [1])
      now += 1
    }
    // The last one is reached, and keeps the other from nothing.
    attempts.reached(0)
    #expect(mayTry() == [0, 1, 2])
  }
}
