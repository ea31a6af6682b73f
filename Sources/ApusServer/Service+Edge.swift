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
  /// A node that decides about devices itself, or reaches one that does, is not replaced by another one.
  package var unreadiness: String? {
    guard edges.share.isEmpty else { return nil }
    let reasons = edges.all.compactMap(\.unreadiness)
    return reasons.count == edges.share.partCount ? reasons.first : nil
  }

  /// Nil where this service has what exists once.
  var deciding: (any DecidingNode)? { edges.main == nil ? nil : self }

  package func ask(
    _ request: [UInt8], mayBeRepeated: Bool,
    _ done: @escaping @Sendable (Result<[UInt8], DecidingNodeFault>) -> Void
  ) {
    guard let edge = edges.main else { return done(.failure(.notReached("this node serves"))) }
    workers[0].ask(edge, request, mayBeRepeated: mayBeRepeated, done)
  }

  /// The nodes of part 1, part 2 and so on, for that of part 0.
  var others: [any DecidingNode] {
    edges.all.map { PartNode(edge: $0, worker: workers[0]) }
  }
}

/// The node that decides about one part of the devices.
private struct PartNode: DecidingNode {
  let edge: Edge
  let worker: Worker

  var unreadiness: String? { edge.unreadiness }

  func ask(
    _ request: [UInt8], mayBeRepeated: Bool,
    _ done: @escaping @Sendable (Result<[UInt8], DecidingNodeFault>) -> Void
  ) {
    // What is shown of the other parts does not wait for this one.
    guard edge.target != nil else { return done(.failure(.notReached("no node has this part"))) }
    worker.ask(edge, request, mayBeRepeated: mayBeRepeated, done)
  }
}

extension Worker {
  fileprivate func ask(
    _ edge: Edge, _ request: [UInt8], mayBeRepeated: Bool,
    _ done: @escaping AdministrationCall.Completion
  ) {
    loop.perform { [self] in
      AdministrationCall(context, edge, request, mayBeRepeated: mayBeRepeated, done).begin()
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
