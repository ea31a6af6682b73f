package import ApusCore
package import ApusModel
package import ApusWire

/// What a node of a cluster knows of all of its nodes.
package struct ClusterNodes: Sendable {
  /// The node's own name.
  package var own: String
  /// All nodes by name, as of the last look at the database; none before the first. Called on any thread.
  package var all: @Sendable () -> [ClusterNode]
  /// Asks a node to let another one serve, or lets it serve again; does not wait until it does. Throws a
  /// `DirectoryProblem` if that is refused, others if the database is not reached. Called on any thread.
  package var setDraining: @Sendable (_ node: NodeName, _ isDraining: Bool) throws -> Void

  package init(
    own: String,
    setDraining: @escaping @Sendable (_ node: NodeName, _ isDraining: Bool) throws -> Void,
    all: @escaping @Sendable () -> [ClusterNode]
  ) {
    self.own = own
    self.setDraining = setDraining
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
    if let part { members.append(.init(key: "part", value: .number(part))) }
    if let silentMilliseconds {
      members.append(.init(key: "silent_ms", value: .integer(silentMilliseconds)))
    }
    return JSONObject(members)
  }
}
