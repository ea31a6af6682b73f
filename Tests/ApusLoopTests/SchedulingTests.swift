import CUV
import Glibc
import Testing

@testable import ApusLoop

@Suite(.timeLimit(.minutes(30)))
struct SchedulingTests {
  /// Whether this system supports the request: Linux 6.12 and newer.
  private static func keepsSlices() throws -> Bool {
    var name = utsname()
    try #require(uname(&name) == 0)
    let release = withUnsafeBytes(of: &name.release) { bytes in
      String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
    }
    let numbers = release.split { !$0.isNumber }.prefix(2).compactMap { Int($0) }
    try #require(numbers.count == 2)
    return (numbers[0], numbers[1]) >= (6, 12)
  }

  @Test("Short slices affect only the calling thread, and not its priority")
  func shortSlices() async throws {
    let keeps = try Self.keepsSlices()
    try await withLoops("short", "other") { loops in
      let other = try await loops[1].on { try #require(Scheduling.current()) }
      try await loops[0].on {
        let before = try #require(Scheduling.current())
        Scheduling.preferShortSlices()
        let after = try #require(Scheduling.current())
        #expect(after.policy == before.policy)
        #expect(after.nice == before.nice)
        if keeps { #expect(after.runtime == 100_000) }
      }
      let untouched = try await loops[1].on { try #require(Scheduling.current()) }
      #expect(untouched.runtime == other.runtime)
    }
  }

  @Test("Giving way affects only the calling thread, and not its slices")
  func givingWay() async throws {
    try await withLoops("nice", "other") { loops in
      try await loops[0].on {
        Scheduling.preferShortSlices()
        let before = try #require(Scheduling.current())
        Scheduling.giveWay(steps: 5)
        let after = try #require(Scheduling.current())
        #expect(after.nice == min(before.nice + 5, 19))
        #expect(after.runtime == before.runtime)
      }
      let other = try await loops[1].on { try #require(Scheduling.current()) }
      let own = try #require(Scheduling.current())
      #expect(other.nice == own.nice)
    }
  }
}
