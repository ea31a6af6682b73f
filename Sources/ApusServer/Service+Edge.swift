package import ApusAdmin
package import ApusCore
import ApusDirectory
import ApusLog
package import ApusLoop
import ApusModel

/// Tells a service which nodes decide about other devices, and asks the one that has what exists once. Usable on any
/// thread.
package struct EdgeLinks: DecidingNode {
  fileprivate let edges: Edges
  fileprivate let workers: [Worker]
  fileprivate let log: Log

  /// Nil if the workers' service decides about all devices.
  init?(_ workers: [Worker]) {
    let context = workers[0].context
    edges = context.shared.edges
    guard !edges.places.isEmpty else { return nil }
    (self.workers, log) = (workers, context.log)
  }

  /// - Parameters:
  ///   - place: The node that decides from now on, and where it accepts links; nil while none does.
  ///   - part: About which part of all devices. Without effect for one that this service decides about itself.
  package func set(_ place: (node: NodeName, address: SocketAddress)?, part: Int = 0) {
    guard edges.places.indices.contains(part), let edge = edges.places[part] else { return }
    do {
      guard try edge.setTarget(place) else { return }
    } catch {
      return log(.error, "no links to other nodes", .text("reason", "\(error)"))
    }
    for worker in workers { worker.loop.perform { worker.linkTargetChanged(ofPart: part) } }
  }
}

extension EdgeLinks {
  package var unreadiness: String? { edges.all.lazy.compactMap(\.unreadiness).first }

  /// Nil where this service has what exists once.
  var deciding: (any DecidingNode)? { edges.main == nil ? nil : self }

  package func ask(
    _ request: [UInt8], mayBeRepeated: Bool,
    _ done: @escaping @Sendable (Result<[UInt8], DecidingNodeFault>) -> Void
  ) {
    guard let edge = edges.main else { return done(.failure(.notReached("this node serves"))) }
    let worker = workers[0]
    worker.loop.perform {
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

  /// Nil if the service decides about all devices.
  package var links: EdgeLinks? { EdgeLinks(workers) }

  /// The node that serves makes the keys of session tickets, so that devices resume their sessions on any node.
  func followTickets() -> LoopTimer {
    let timer = LoopTimer(loop: watch.loop) { [tickets] in tickets.follow() }
    timer.start(afterMilliseconds: 1000, repeatMilliseconds: 1000)
    return timer
  }
}
