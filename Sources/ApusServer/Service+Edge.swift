package import ApusAdmin
package import ApusCore
import ApusDirectory
import ApusLog
package import ApusLoop
import ApusModel

/// Tells an edge which node decides, and asks that node. Usable on any thread.
package struct EdgeLinks: DecidingNode {
  fileprivate let edge: Edge
  fileprivate let workers: [Worker]
  fileprivate let log: Log

  /// Nil unless the workers are those of an edge.
  init?(_ workers: [Worker]) {
    let context = workers[0].context
    guard let edge = context.shared.edge else { return nil }
    (self.edge, self.workers, log) = (edge, workers, context.log)
  }

  /// - Parameter place: The node that decides from now on, and where it accepts links; nil while none does.
  package func set(_ place: (node: NodeName, address: SocketAddress)?) {
    do {
      guard try edge.setTarget(place) else { return }
    } catch {
      return log(.error, "no links to other nodes", .text("reason", "\(error)"))
    }
    for worker in workers { worker.loop.perform { worker.linkTargetChanged() } }
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
  /// Goes on with the devices of the edge that this process was until now: they keep their connections. A few at a
  /// time, because the service reads what it knows of each, and serves others meanwhile.
  ///
  /// - Returns: How many devices those are.
  package func takeDevices(from edge: Service) -> Int {
    var count = 0
    for worker in edge.everyone {
      while true {
        let moved = worker.ask { $0.moveOutDevices(limit: Limits.linkOpeningsAtOnce) }
        if moved.isEmpty { break }
        count += moved.count
        for device in moved {
          let owner = workers[device.state?.device?.ownerIndex(of: workers.count) ?? 0]
          owner.loop.perform { owner.connections.adopt(moved: device) }
        }
        for owner in workers { owner.ask { _ in } }
      }
    }
    return count
  }

  /// Nil unless the service is an edge.
  package var links: EdgeLinks? { EdgeLinks(workers) }

  /// The node that serves makes the keys of session tickets, so that devices resume their sessions on any node.
  func followTickets() -> LoopTimer {
    let timer = LoopTimer(loop: watch.loop) { [tickets] in tickets.follow() }
    timer.start(afterMilliseconds: 1000, repeatMilliseconds: 1000)
    return timer
  }
}
