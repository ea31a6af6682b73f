import ApusCore
package import ApusDirectory
package import ApusLog
package import ApusModel
import ApusStore
import ApusThread

/// Keeps a node's copy of the shared files up to date, gives signs of life, and learns what is asked of the node: a
/// thread with a connection of its own.
package final class ClusterFollower: Sendable {
  private struct State {
    var role = ClusterNode.State.standby
    var orders: ClusterOrders?
    var nodes: [ClusterNode] = []
    var isRemoved = false
    /// Whether the devices are divided otherwise, or a part is in another database, than this process knows.
    var isRearranged = false
    /// Whether the database went back in time.
    var isBack = false
    var isStopping = false
    var isFinished = false
  }

  private let directory: DataDirectory
  private let member: ClusterMember
  private let program: String
  /// Where the node accepts links.
  private let link: String
  private let log: Log
  private let onOrders: @Sendable (ClusterOrders) -> Void
  private let onRemoval: @Sendable () -> Void
  private let onRearrangement: @Sendable () -> Void
  /// Where the parts were at the start.
  private let places: String?
  private let state = Monitor(State())

  /// Two rounds in a second: a change takes effect on every node within one.
  private static let roundMilliseconds: Int64 = 400

  /// - Parameters:
  ///   - program: The version of the program, which other nodes show.
  ///   - link: Where the node accepts links from others, as HOST:PORT; empty if it does not.
  ///   - onOrders: Called after each sign of life, on the thread.
  ///   - onRemoval: Called once if the node was removed from the cluster, on the thread.
  ///   - onRearrangement: Called if the devices are divided into more parts than before, or a part is in another
  ///     database, which the data directory knows then, on the thread.
  package init(
    _ directory: DataDirectory, _ member: ClusterMember, program: String, link: String = "",
    log: Log, onOrders: @escaping @Sendable (ClusterOrders) -> Void = { _ in },
    onRemoval: @escaping @Sendable () -> Void = {},
    onRearrangement: @escaping @Sendable () -> Void = {}
  ) {
    self.directory = directory
    self.member = member
    self.program = program
    self.link = link
    self.log = log
    self.onOrders = onOrders
    self.onRemoval = onRemoval
    self.onRearrangement = onRearrangement
    places = Self.places(directory)
  }

  /// What the database said last; nil if it was not reached yet.
  package var orders: ClusterOrders? { state.withLock { $0.orders } }

  /// All nodes, by name, as the database had them last; none if it was not reached yet.
  package var nodes: [ClusterNode] { state.withLock { $0.nodes } }

  package var isRemoved: Bool { state.withLock { $0.isRemoved } }

  /// Whether the devices were divided, or a part was moved, while the process ran: it must begin again.
  package var isRearranged: Bool { state.withLock { $0.isRearranged } }

  private static func places(_ directory: DataDirectory) -> String? {
    try? Files.readText(directory.partsFile)
  }

  /// Whether the node serves, which other nodes show.
  package func setRole(_ role: ClusterNode.State) { state.notify { $0.role = role } }

  /// Brings the copy up to date once, before the thread runs. A database that is away is no fault: the node has a copy.
  package func catchUp() throws {
    do { try pull() } catch let error as StoreError {
      log(
        .warning, "the database of the cluster is not reached", .text("reason", "\(error)"))
    }
  }

  /// Brings the copy up to date now. The node that served before may have changed files just before its end.
  package func pull() throws {
    var database: ClusterDatabase?
    try round(&database)
  }

  package func start() { startThread { [self] in run() } }

  /// Ends the thread and waits for that.
  package func stop() {
    state.notify { $0.isStopping = true }
    state.wait { $0.isFinished ? .found(()) : .wait(untilMilliseconds: nil) }
  }

  // MARK: The thread

  private func run() {
    var database: ClusterDatabase?
    var isFailing = false
    while true {
      do {
        try round(&database)
        if isFailing { log(.notice, "the database of the cluster is reached again") }
        isFailing = false
      } catch {
        database = nil
        if !isFailing {
          log(.warning, "shared files not updated", .text("reason", "\(error)"))
        }
        isFailing = true
      }
      if wait() { break }
    }
    if let database {
      _ = try? database.sign(member.node.text, .stopped, version: program, link: link)
    }
    state.notify { $0.isFinished = true }
  }

  private func round(_ database: inout ClusterDatabase?) throws {
    let connection =
      try database ?? directory.clusterDatabase(node: member.node.text, purpose: "follower")
    database = connection
    let role = state.withLock { $0.role }
    let seen = directory.seenProgress
    guard
      let orders = try connection.sign(
        member.node.text, role, version: program, link: link)
    else {
      if !state.notify({ state in
        defer { state.isRemoved = true }
        return state.isRemoved
      }) {
        onRemoval()
      }
      return
    }
    guard orders.serving.count == member.parts else {
      try directory.save(member.with(parts: orders.serving.count))
      return rearranged()
    }
    let shared = SharedFiles(directory, member)
    if orders.filesVersion != shared.version {
      // What was read before the lock may be older than what this node has written meanwhile.
      try directory.locked {
        if let now = try connection.directory() { try shared.pull(connection, now) }
      }
    }
    guard Self.places(directory) == places else { return rearranged() }
    noteProgress(orders.progress, after: seen)
    let nodes = try connection.nodes()
    state.notify { ($0.orders, $0.nodes) = (orders, nodes) }
    onOrders(orders)
  }

  private func rearranged() {
    state.notify { $0.isRearranged = true }
    onRearrangement()
  }

  /// Says once that the database went back in time: the store refuses it, whichever node opens it.
  private func noteProgress(_ progress: DatabaseProgress, after seen: DatabaseProgress?) {
    let isBack = !directory.note(progress, after: seen)
    let isNew = state.notify { state in
      defer { state.isBack = isBack }
      return isBack && !state.isBack
    }
    guard isNew else { return }
    log(
      .error, "the database lacks writes that it had acknowledged",
      .text("found", "\(progress)"),
      .text("remedy", "bring the right server back, or accept the loss: apus store --accept-loss"))
  }

  /// Until the next round, or a change of role; true if the thread must end.
  private func wait() -> Bool {
    let deadline = monotonicMilliseconds() + Self.roundMilliseconds
    let role = state.withLock { $0.role }
    return state.wait { state in
      if state.isStopping { return .found(true) }
      if state.role != role || monotonicMilliseconds() >= deadline { return .found(false) }
      return .wait(untilMilliseconds: deadline)
    }
  }
}
