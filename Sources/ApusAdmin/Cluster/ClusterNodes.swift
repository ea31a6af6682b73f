package import ApusModel
package import ApusWire

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
      var object = node.json
      object.members.append(.init(key: "asked", value: .bool(node.name == own)))
      return .object(object)
    }
  }
}

extension ClusterNode {
  /// As the API and `apus cluster nodes` show it.
  package var json: JSONObject {
    var members: [JSONObject.Member] = [
      .init(key: "node", value: .string(name)), .init(key: "state", value: .string(shownState)),
      .init(key: "draining", value: .bool(isDraining)),
      .init(key: "version", value: .string(version)),
    ]
    if !address.isEmpty { members.append(.init(key: "address", value: .string(address))) }
    if let silentMilliseconds {
      members.append(.init(key: "silent_ms", value: .integer(silentMilliseconds)))
    }
    return JSONObject(members)
  }
}
