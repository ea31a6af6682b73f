package import ApusCore
import ApusModel
package import ApusStore
import ApusWire
import Synchronization

/// The parts of a cluster's devices that other nodes decide about, as the administration of part 0's node sees them.
package final class OtherParts: Sendable {
  private struct State {
    var rows: DividedStore?
    var counters: [TopicCounters] = []
    var rejections: [Reason: UInt64] = [:]
  }

  private let share: DeviceShare
  /// The node of part 1, and so on.
  private let nodes: [any DecidingNode]
  private let open: @Sendable () throws(StoreError) -> DividedStore
  private let state = Mutex(State())

  /// - Parameters:
  ///   - nodes: How the node of each other part is asked, in their order.
  ///   - open: Opens the rows of all parts, on any thread.
  package init(
    _ share: DeviceShare, _ nodes: [any DecidingNode],
    open: @escaping @Sendable () throws(StoreError) -> DividedStore
  ) {
    (self.share, self.nodes, self.open) = (share, nodes, open)
  }

  /// The rows of all parts.
  func rows() throws(StoreError) -> DividedStore {
    let rows = try state.withLock { state throws(StoreError) in
      if let rows = state.rows { return rows }
      let rows = try open()
      state.rows = rows
      return rows
    }
    try rows.catchUp()
    return rows
  }

  /// What happened to the notifications of the other parts, as last written: at most a second old while their nodes
  /// serve. What was read last while the database is away, so that no sum ever shrinks.
  func counters() -> [TopicCounters] {
    guard
      let found = try? rows().readCounters().filter({ !DividedStore.isOfMain(worker: $0.worker) })
    else { return state.withLock { $0.counters } }
    let sum = found.map(\.counters).added()
    state.withLock { $0.counters = sum }
    return sum
  }

  /// The same of rejected requests.
  func rejections() -> [Reason: UInt64] {
    guard let found = try? rows().readRejections() else { return state.withLock { $0.rejections } }
    var sum: [Reason: UInt64] = [:]
    for row in found where !DividedStore.isOfMain(worker: row.worker) {
      sum[row.reason, default: 0] += row.number
    }
    state.withLock { $0.rejections = sum }
    return sum
  }

  /// What each node says; nothing but the problem of one that does not answer.
  func reports() -> [PartReport] {
    let answers = nodes.answers(to: nodes.map { _ in .report })
    return answers.enumerated().map { place, answer in
      var report =
        answer.flatMap { PartReport($0) } ?? PartReport(problem: "its node is not reached")
      report.problem = report.problem.map { "part \(place + 1) of the devices: \($0)" }
      return report
    }
  }

  /// What the nodes know of those devices that they decide about.
  func sightings(of devices: [DeviceID]) -> [DeviceKey: DeviceSighting] {
    var asked: [[DeviceID]] = nodes.map { _ in [] }
    for device in devices {
      let part = share.part(of: device)
      if part > 0 { asked[part - 1].append(device) }
    }
    let answers = nodes.answers(to: asked.map { $0.isEmpty ? nil : .sightings($0) })
    var seen: [DeviceKey: DeviceSighting] = [:]
    for answer in answers {
      for (key, sighting) in (answer?["devices"]?.array ?? []).compactMap(PartSighting.read) {
        seen[key] = sighting
      }
    }
    return seen
  }
}
