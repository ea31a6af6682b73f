package import ApusAdmin
package import ApusCore
import ApusLog
package import ApusLoop

/// Tells an edge which node decides, and asks that node. Usable on any thread.
package struct EdgeLinks: DecidingNode {
  let edge: Edge
  let workers: [Worker]
  let log: Log

  /// - Parameter place: The node that decides from now on, and where it accepts links; nil while none does.
  package func set(_ place: (node: NodeName, address: SocketAddress)?) {
    do {
      guard try edge.setTarget(place) else { return }
    } catch {
      return log(.error, "no links to other nodes", .text("reason", "\(error)"))
    }
    for worker in workers { worker.loop.perform { [edge] in worker.linkTargetChanged(edge) } }
  }
}

extension EdgeLinks {
  package var unreadiness: String? { edge.unreadiness }

  package func ask(
    _ request: [UInt8], mayBeRepeated: Bool,
    _ done: @escaping @Sendable (Result<[UInt8], DecidingNodeFault>) -> Void
  ) {
    let worker = workers[0]
    worker.loop.perform { [edge] in
      AdministrationCall(
        worker.context, edge, request, mayBeRepeated: mayBeRepeated, done
      ).begin()
    }
  }
}

extension Service {
  /// Nil unless the service is an edge.
  package var links: EdgeLinks? {
    workers[0].context.shared.edge.map { EdgeLinks(edge: $0, workers: workers, log: log) }
  }
}
