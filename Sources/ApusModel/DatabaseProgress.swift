/// How far a database is, to tell one that went back in time: the last group of writes, in an era.
package struct DatabaseProgress: Sendable, Hashable {
  /// Grows when an operator accepts a database that went back.
  package var era: Int64
  package var group: Int64

  package init(era: Int64, group: Int64) {
    self.era = era
    self.group = group
  }
}

extension DatabaseProgress: Comparable {
  package static func < (left: DatabaseProgress, right: DatabaseProgress) -> Bool {
    (left.era, left.group) < (right.era, right.group)
  }
}

extension DatabaseProgress: CustomStringConvertible {
  /// "3.1500"
  package var description: String { "\(era).\(group)" }

  /// Nil for any other text.
  package init?(_ text: some StringProtocol) {
    let numbers = text.split(separator: ".").map { Int64($0) }
    guard numbers.count == 2, let era = numbers[0], let group = numbers[1] else { return nil }
    self.init(era: era, group: group)
  }
}
