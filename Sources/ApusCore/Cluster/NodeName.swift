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

/// One start of a node. Each start takes a greater number than all before it, and the statement that takes the lease
/// compares: one that is delayed must not bring an earlier incarnation back.
package struct Incarnation: Sendable, Hashable {
  package let rawValue: UInt64

  package init(_ rawValue: UInt64) { self.rawValue = rawValue }
}

extension Incarnation: Comparable {
  package static func < (left: Incarnation, right: Incarnation) -> Bool {
    left.rawValue < right.rawValue
  }
}

/// A node as it was started once: what holds a lease, owns partitions and can be fenced.
package struct NodeIncarnation: Sendable, Hashable {
  package let node: NodeName
  package let incarnation: Incarnation

  package init(node: NodeName, incarnation: Incarnation) {
    self.node = node
    self.incarnation = incarnation
  }
}
