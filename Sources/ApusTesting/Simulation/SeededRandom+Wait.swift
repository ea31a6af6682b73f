import ApusRandom

extension SeededRandom {
  /// A time around `mean`, often short and seldom long, at most eight times as long: approximately the waits of a
  /// Poisson process.
  package mutating func wait(mean: UInt64) -> UInt64 {
    var total: UInt64 = 0
    // The smaller of two is often short; coin flips lengthen it.
    var unit = min(between(0, 2 * mean), between(0, 2 * mean))
    total += unit
    var rounds = 0
    while chance(1, in: 3), rounds < 3 {
      unit = between(0, 2 * mean)
      total += unit
      rounds += 1
    }
    return max(1, total)
  }
}
