package import ApusModel

/// The number of a worker's connections for each listener kind and environment.
package struct ConnectionCounts: Sendable {
  private var counts = [Int](
    repeating: 0, count: ListenerKind.allCases.count * Environment.allCases.count)

  package init() {}

  /// By kind and environment, in the order of their declarations.
  var numbers: [Int] { counts }

  /// From ``numbers``; nil for anything else.
  init?(numbers: [Int]) {
    guard numbers.count == counts.count else { return nil }
    counts = numbers
  }

  private static func index(_ kind: ListenerKind, _ environment: Environment) -> Int {
    kind.index * Environment.allCases.count + Int(environment.rawValue)
  }

  package subscript(kind: ListenerKind, environment: Environment) -> Int {
    get { counts[Self.index(kind, environment)] }
    set { counts[Self.index(kind, environment)] = newValue }
  }

  static func + (left: ConnectionCounts, right: ConnectionCounts) -> ConnectionCounts {
    var sum = left
    for index in sum.counts.indices { sum.counts[index] += right.counts[index] }
    return sum
  }
}
