/// How many devices of a service are dormant, and how often some were.
package struct Dormancy: Sendable, Hashable {
  /// Those that are now.
  package var count = 0
  /// How often one fell dormant since the start, and how often one was woken.
  package var fallen: UInt64 = 0
  package var woken: UInt64 = 0

  package init(count: Int = 0, fallen: UInt64 = 0, woken: UInt64 = 0) {
    self.count = count
    self.fallen = fallen
    self.woken = woken
  }

  package static func + (left: Dormancy, right: Dormancy) -> Dormancy {
    var sum = left
    sum.count += right.count
    sum.fallen += right.fallen
    sum.woken += right.woken
    return sum
  }
}
