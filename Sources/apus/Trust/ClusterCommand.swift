import ApusAdmin
import ApusCluster
import ApusCommand
import ApusCore
import ApusDirectory
import ApusModel
import ApusWire

/// `apus cluster`
struct ClusterCommand {
  private let invocation: Invocation
  private let user: Operator
  private let cluster: Cluster

  /// Seconds for which a node that drains is waited for: it lets connected peers finish.
  private static let drainSeconds = 120

  init(_ invocation: Invocation) {
    self.invocation = invocation
    user = Operator(invocation)
    cluster = Cluster(user.directory, program: Program.version)
  }

  func run() throws(CommandFailure) {
    let (what, name) = (invocation.operands[0], invocation.operands.dropFirst().first)
    switch (what, name) {
    case ("invite", nil): try invite()
    case ("nodes", nil): try list()
    case ("divide", nil): try divide()
    case ("parts", nil): try listParts()
    case ("move", let part?): try move(part)
    case ("init", let name?): try initialize(node(name))
    case ("join", let name?): try join(node(name))
    case ("drain", let name?): try drain(node(name))
    case ("resume", let name?): try resume(node(name))
    case ("remove", let name?): try remove(node(name))
    case ("init", nil), ("join", nil), ("drain", nil), ("resume", nil), ("remove", nil):
      throw CommandFailure(
        .usage, "the node's name is missing", remedy: "Use `apus cluster \(what) NODE`.")
    case ("move", nil):
      throw CommandFailure(
        .usage, "the number of the part is missing",
        remedy: "Use `apus cluster move PART --store ADDRESS`.")
    case ("invite", _), ("nodes", _), ("divide", _), ("parts", _):
      throw CommandFailure(
        .usage, "\(what) takes no name", remedy: "Use `apus cluster \(what)`.")
    default:
      throw CommandFailure(
        .usage, "unknown action \"\(what)\"",
        remedy: "Use init, invite, join, nodes, drain, resume, remove, divide, parts or move.")
    }
  }

  private func node(_ name: String) throws(CommandFailure) -> NodeName {
    guard let node = NodeName(name) else {
      throw CommandFailure(
        .usage, "\"\(name)\" is not a node's name",
        remedy: "Use 1 to \(Limits.nodeNameLength) of a-z, 0-9 and hyphens.")
    }
    return node
  }

  private func store() throws(CommandFailure) -> StorePlace? {
    guard let text = invocation[StoreOptions.store] else { return nil }
    do throws(DirectoryProblem) { return try StorePlace(text) } catch {
      throw CommandFailure(.usage, "--store: \(error)")
    }
  }

  private func initialize(_ node: NodeName) throws(CommandFailure) {
    let store = try store()
    let parts = Int(invocation.value(ClusterOptions.parts))
    let (count, code) = try user.attempt {
      let count = try cluster.initialize(
        node: node, address: invocation[ClusterOptions.address] ?? "", store: store, parts: parts,
        allowsSingleServer: invocation.isOn(StoreOptions.singleDatabase))
      return (count, try cluster.invite())
    }
    user.record(.nodeAdded, "node \(node.text)")
    Report(
      fields: [
        "node": .string(node.text), "files": .integer(Int64(count)), "code": .string(code.text),
        "seconds": .integer(JoinCode.validSeconds),
      ],
      text: """
        This is the node \(node.text) of a new cluster, which shares \(counted(count, "file")).
        Restart its service. On the next machine, within an hour:

          apus cluster join NODE --store ADDRESS --code \(code.text)

        """
    ).print(invocation)
  }

  private func invite() throws(CommandFailure) {
    let code = try user.attempt { try cluster.invite() }
    Report(
      fields: ["code": .string(code.text), "seconds": .integer(JoinCode.validSeconds)],
      text: "\(code.text)\n\nValid for one node, within an hour.\n"
    ).print(invocation)
  }

  private func join(_ node: NodeName) throws(CommandFailure) {
    guard let text = invocation[ClusterOptions.code] else {
      throw invocation.missing(ClusterOptions.code.description)
    }
    guard let code = JoinCode(text) else {
      throw invocation.failure(about: ClusterOptions.code, "\"\(text)\" is not a code")
    }
    guard let store = try store() else {
      throw invocation.missing(StoreOptions.store.description)
    }
    try user.attemptAnywhere {
      try cluster.join(
        store, code, node: node, address: invocation[ClusterOptions.address] ?? "")
    }
    user.record(.nodeAdded, "node \(node.text)")
    Report(
      fields: ["node": .string(node.text)],
      text: "\(user.directory.path) is that of the node \(node.text). Start its service.\n"
    ).print(invocation)
  }

  private func list() throws(CommandFailure) {
    let nodes = try user.attempt { try cluster.nodes() }
    if invocation.isOn(ApusOptions.json) {
      for node in nodes { Output.json(.object(node.json)) }
      return
    }
    let isDivided = nodes.contains { $0.part.map { $0 > 0 } == true }
    let rows = nodes.map { node in
      let part = isDivided ? [node.part.map { "\($0)" } ?? ""] : []
      return [node.name, node.shownState + (node.isDraining ? ", draining" : "")] + part + [
        node.version, node.address,
      ]
    }
    let heading = ["NODE", "STATE"] + (isDivided ? ["PART"] : []) + ["VERSION", "ADDRESS"]
    Output.standard(columns([heading] + rows))
  }

  private func drain(_ node: NodeName) throws(CommandFailure) {
    let successor = try user.attempt {
      try cluster.drain(node, withinSeconds: Self.drainSeconds)
    }
    user.record(.nodeDrained, "node \(node.text)")
    Report(
      fields: ["node": .string(node.text), "serving": successor.map { .string($0) }],
      text: successor.map { "\($0) serves in place of \(node.text).\n" }
        ?? "\(node.text) did not serve, and does not take over until `apus cluster resume \(node.text)`.\n"
    ).print(invocation)
  }

  private func resume(_ node: NodeName) throws(CommandFailure) {
    try user.attempt { try cluster.resume(node) }
    user.record(.nodeResumed, "node \(node.text)")
    Report(
      fields: ["node": .string(node.text)], text: "\(node.text) takes over when it is needed.\n"
    ).print(invocation)
  }

  private func divide() throws(CommandFailure) {
    let parts = Int(invocation.value(ClusterOptions.parts))
    let report = try user.attempt {
      try cluster.divide(
        into: parts, allowsSingleServer: invocation.isOn(StoreOptions.singleDatabase))
    }
    user.record(.devicesDivided, "\(parts) parts")
    Report(
      fields: [
        "parts": .integer(Int64(parts)), "moved": .integer(Int64(report.moved)),
        "rows": .integer(Int64(report.rows)),
      ],
      text: """
        The devices are divided into \(counted(parts, "part")): \(report.moved) of \(counted(report.rows, "row")) moved.
        Start \(counted(parts, "node")) with --link-listen, each of which serves one part, and one more that stands by.

        """
    ).print(invocation)
  }

  private func listParts() throws(CommandFailure) {
    let parts = try user.attempt { try cluster.parts() }
    if invocation.isOn(ApusOptions.json) {
      for part in parts {
        Output.json(
          .members([
            "part": .integer(Int64(part.number)), "node": part.node.map { .string($0) },
            "database": .string(part.database),
          ]))
      }
      return
    }
    let rows = parts.map { ["\($0.number)", $0.node ?? "", $0.database] }
    Output.standard(columns([["PART", "NODE", "DATABASE"]] + rows))
  }

  private func move(_ text: String) throws(CommandFailure) {
    guard let part = Int(text), part >= 0 else {
      throw CommandFailure(
        .usage, "\"\(text)\" is not the number of a part",
        remedy: "`apus cluster parts` lists them.")
    }
    guard let store = try store() else {
      throw invocation.missing(StoreOptions.store.description)
    }
    let rows = try user.attempt {
      try cluster.move(
        part, to: store, allowsSingleServer: invocation.isOn(StoreOptions.singleDatabase))
    }
    user.record(.partMoved, "part \(part) to \(store)")
    Report(
      fields: [
        "part": .integer(Int64(part)), "database": .string("\(store)"),
        "rows": rows.map { .integer(Int64($0)) },
      ],
      text: rows.map {
        """
        Part \(part) is in \(store) now: \(counted($0, "row")). Start the services of all nodes.
        The database that had it keeps them, out of date, until you remove them there.

        """
      }
        ?? """
        Part \(part) is in \(store), which had its rows already. Start the services of all nodes.

        """
    ).print(invocation)
  }

  private func remove(_ node: NodeName) throws(CommandFailure) {
    try user.attempt { try cluster.remove(node) }
    user.record(.nodeRemoved, "node \(node.text)")
    Report(
      fields: ["node": .string(node.text)],
      text: "Removed \(node.text). It still knows the database's password: change that.\n"
    ).print(invocation)
  }
}
