import ApusModel

/// How a node of a cluster is called: 1 to 63 characters of `a-z`, `0-9` and `-`.
package struct NodeName: Sendable, Hashable {
  package let text: String

  /// Nil for any other text.
  package init?(_ text: String) {
    guard (1...Limits.nodeNameLength).contains(text.utf8.count),
      text.utf8.allSatisfy({ $0 &- 0x61 < 26 || $0 &- 0x30 < 10 || $0 == 0x2d })
    else { return nil }
    self.text = text
  }
}

extension NodeName: Comparable {
  package static func < (left: NodeName, right: NodeName) -> Bool { left.text < right.text }
}
