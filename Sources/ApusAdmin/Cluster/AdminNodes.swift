import ApusCore
import ApusDirectory
import ApusModel
import ApusWeb
import ApusWire

/// The nodes of the cluster as the administration shows and drains them: what `apus cluster` does with the database.
struct AdminNodes {
  private let view: ServiceView
  private let input: AdminInput
  private let changes: AdminChanges

  init(_ view: ServiceView, _ input: AdminInput) {
    self.view = view
    self.input = input
    changes = AdminChanges(view, input)
  }

  func list() throws(AdminProblem) -> WebResponse {
    try input.requireAllUsed()
    return WebResponse(json: .fields(["nodes": .array(view.cluster?.json ?? [])]))
  }

  /// Asks a node to let another one serve, or lets it serve again. The node does so after this answer.
  func setDraining(_ isDraining: Bool) throws(AdminProblem) -> WebResponse {
    let node = try input.parameter("node", { NodeName($0) }, "the name of a node")
    try input.requireAllUsed()
    guard let cluster = view.cluster else {
      throw AdminProblem(.notFound, "this service is not a node of a cluster")
    }
    guard cluster.all().contains(where: { $0.name == node.text }) else {
      throw AdminProblem(
        .notFound, "the cluster has no node \(node.text); GET /v1/nodes lists them")
    }
    do {
      try cluster.setDraining(node, isDraining)
    } catch let problem as DirectoryProblem {
      throw AdminProblem(.conflict, "\(problem)")
    } catch {
      throw AdminProblem(.unavailable, "the database of the cluster: \(error)")
    }
    changes.record(isDraining ? .nodeDrained : .nodeResumed, "node \(node.text)")
    return WebResponse(
      json: .fields(["node": .string(node.text), "draining": .bool(isDraining)]))
  }
}
