import ApusAdmin
import ApusCore
import ApusLoop
import ApusModel
import Glibc
import Synchronization

/// The one budget of connections that all workers of a service share. It is asked when a connection comes, when its
/// peer becomes trusted and when it ends, never for a message.
final class ConnectionGate: Sendable {
  private struct State {
    var budget: ConnectionBudget<SocketAddress>
    var refusedCount: UInt64 = 0
    var evictedCount: UInt64 = 0
    var crowdedTeamCount: UInt64 = 0
    var report = CountReport()
  }

  private let state: Mutex<State>

  init(capacity: Int = .max) {
    state = Mutex(State(budget: ConnectionBudget(capacity: capacity)))
  }

  /// The descriptors of this process, less those that are kept for the store, the administration and the rest of it.
  static func descriptorCapacity() -> Int {
    var limit = rlimit()
    let files = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
    guard unsafe getrlimit(files, &limit) == 0, limit.rlim_cur < rlim_t(Int32.max) else {
      return .max
    }
    return ConnectionBudget<SocketAddress>.capacity(ofDescriptors: Int(limit.rlim_cur))
  }

  /// - Parameter peer: Nil until a proxy has named the client.
  func accept(from peer: SocketAddress?, at listener: ServiceListener) -> Bool {
    state.withLock { $0.budget.accept(from: peer?.site, listener: Self.counted(listener)) }
  }

  /// A proxy has named the client of an accepted connection; false if its address holds too many.
  func assign(_ client: SocketAddress, at listener: ServiceListener) -> Bool {
    state.withLock { $0.budget.assign(client.site, listener: Self.counted(listener)) }
  }

  /// False if the connection remains untrusted, as its team has too many.
  func trust(_ peer: SocketAddress, at listener: ServiceListener, as holder: ConnectionHolder)
    -> Bool
  {
    state.withLock { $0.budget.trust(peer.site, listener: Self.counted(listener), as: holder) }
  }

  func close(_ peer: SocketAddress?, at listener: ServiceListener, holder: ConnectionHolder?) {
    state.withLock {
      $0.budget.close(peer?.site, listener: Self.counted(listener), holder: holder)
    }
  }

  private static func counted(_ listener: ServiceListener)
    -> ConnectionBudget<SocketAddress>.Listener
  {
    .init(kind: listener.kind.index, environment: listener.environment)
  }

  func noteRefused() { state.withLock { $0.refusedCount += 1 } }
  func noteEvicted() { state.withLock { $0.evictedCount += 1 } }
  func noteCrowdedTeam() { state.withLock { $0.crowdedTeamCount += 1 } }

  /// What the administration shows.
  var figures: ConnectionFigures {
    state.withLock { state in
      var figures = ConnectionFigures()
      figures.capacity = state.budget.capacity
      figures.untrusted = state.budget.untrustedCount
      figures.refused = state.refusedCount
      figures.evicted = state.evictedCount
      figures.crowdedTeam = state.crowdedTeamCount
      return figures
    }
  }

  /// How many connections were refused or ended for others since this last said so; nil where it said so lately, or
  /// where there were none.
  func takeReport(nowSeconds: UInt64) -> UInt64? {
    state.withLock { state in
      state.report.take(state.refusedCount &+ state.evictedCount, nowSeconds: nowSeconds)
    }
  }
}
