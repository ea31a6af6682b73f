import ApusCore
import ApusModel
import Testing

@Suite("Guessing secrets is slowed down")
struct AttemptGuardTests {
  private func prefix(_ address: [UInt8]) -> AddressPrefix { AddressPrefix(address.span) }

  private let one: [UInt8] = [192, 0, 2, 1]
  private let two: [UInt8] = [192, 0, 2, 2]

  @Test(
    "The first failures are answered at once, later ones are delayed, then the address is refused"
  )
  func escalation() {
    var guesses = AttemptGuard()
    let penalties = (0..<12).map { _ in guesses.failed(from: prefix(one), nowMilliseconds: 0) }
    #expect(
      penalties == [
        .answer, .answer, .answer, .hold(milliseconds: 100), .hold(milliseconds: 200),
        .hold(milliseconds: 400), .hold(milliseconds: 800), .hold(milliseconds: 1600),
        .hold(milliseconds: 3200), .refuse(retryAfterSeconds: 30), .refuse(retryAfterSeconds: 60),
        .refuse(retryAfterSeconds: 120),
      ])
    #expect(
      guesses.attempt(from: prefix(one), nowMilliseconds: 0) == .refuse(retryAfterSeconds: 120))
    // Rounded up, so that a client that waits that long is answered.
    #expect(
      guesses.attempt(from: prefix(one), nowMilliseconds: 119_001)
        == .refuse(retryAfterSeconds: 1))
    #expect(guesses.attempt(from: prefix(one), nowMilliseconds: 120_000) == .look)
    #expect(guesses.attempt(from: prefix(two), nowMilliseconds: 0) == .look)
  }

  @Test("No refusal is longer than the maximum")
  func longest() {
    var guesses = AttemptGuard()
    for _ in 0..<1000 { _ = guesses.failed(from: prefix(one), nowMilliseconds: 0) }
    let longest = Limits.firstRefusalSeconds * 32
    #expect(
      guesses.attempt(from: prefix(one), nowMilliseconds: 0)
        == .refuse(retryAfterSeconds: longest))
  }

  @Test("Failures are forgotten one by one, and a success clears all of them")
  func forgiveness() {
    var guesses = AttemptGuard()
    for _ in 0..<5 { _ = guesses.failed(from: prefix(one), nowMilliseconds: 0) }
    let minute = Limits.failureForgivenSeconds * 1000
    // Two of five are forgiven, so this is the fourth.
    #expect(
      guesses.failed(from: prefix(one), nowMilliseconds: 2 * minute + 1)
        == .hold(milliseconds: 100))
    #expect(
      guesses.failed(from: prefix(one), nowMilliseconds: 2 * minute + 2)
        == .hold(milliseconds: 200))
    guesses.succeeded(from: prefix(one))
    #expect(guesses.failed(from: prefix(one), nowMilliseconds: 2 * minute + 3) == .answer)
  }

  @Test("All addresses of a /64 count as one, and each IPv4 address counts on its own")
  func prefixes() {
    let site: [UInt8] = [0x20, 1, 0x0d, 0xb8, 0, 1, 0, 2]
    let left = site + [0, 0, 0, 0, 0, 0, 0, 1]
    let right = site + [9, 9, 9, 9, 9, 9, 9, 9]
    #expect(prefix(left) == prefix(right))
    #expect(
      prefix(left) != prefix([0x20, 1, 0x0d, 0xb8, 0, 1, 0, 3] + [UInt8](repeating: 0, count: 8)))
    #expect(prefix(one) != prefix(two))
    // 0.0.0.1 is not the /64 prefix with the same bits.
    #expect(
      prefix([0, 0, 0, 1]) != prefix([0, 0, 0, 0, 0, 0, 0, 1] + [UInt8](repeating: 0, count: 8)))
  }

  @Test("The table is bounded, and keeps the addresses with the most failures")
  func bounded() {
    var guesses = AttemptGuard(capacity: 16)
    for _ in 0..<Limits.failuresUntilRefused {
      _ = guesses.failed(from: prefix(one), nowMilliseconds: 0)
    }
    for index in 0..<1000 {
      let address = [10, UInt8(index >> 8), UInt8(index & 255), 1]
      #expect(guesses.failed(from: prefix(address), nowMilliseconds: Int64(index)) == .answer)
      #expect(guesses.count <= 16)
    }
    #expect(guesses.attempt(from: prefix(one), nowMilliseconds: 1000) != .look)
  }
}
