package import ApusModel
import ApusWire

/// What a node of a cluster knows of all of its nodes.
package struct ClusterNodes: Sendable {
  /// The node's own name.
  package var own: String
  /// All nodes by name, as of the last look at the database; none before the first. Called on any thread.
  package var all: @Sendable () -> [ClusterNode]

  package init(own: String, all: @escaping @Sendable () -> [ClusterNode]) {
    self.own = own
    self.all = all
  }

  /// Whether an operator drains the node.
  var isDraining: Bool { all().contains { $0.name == own && $0.isDraining } }

  var json: [JSONValue] {
    all().map { node in
      .fields([
        "node": .string(node.name), "state": .string(node.shownState),
        "draining": .bool(node.isDraining), "version": .string(node.version),
        "address": node.address.isEmpty ? nil : .string(node.address),
        "silent_ms": node.silentMilliseconds.map { .integer($0) },
        "asked": .bool(node.name == own),
      ])
    }
  }
}
