import ApusCluster
import ApusCommand
import ApusCore
import ApusDirectory
import ApusLog
import ApusLoop
import ApusModel
import ApusServer
import ApusWire
import Synchronization

/// The life of a cluster's node: it stands by, serves when it is its turn, steps down, and begins again.
///
/// It begins again as a new program in the same process, so that nothing of the old service is left.
struct NodeService {
  private let member: ClusterMember
  private let follower: ClusterFollower
  private let turn: Turn
  private let log: Log
  /// Whether it says on standard output, as JSON, that it stands by.
  private let isAnnounced: Bool
  private let manager = ServiceManager(Process.environment)

  /// Why the node stops serving.
  private enum End: Sendable {
    case drained
    case takenOver
    case removed
  }

  /// What the threads of follower and store tell the main thread.
  private final class Turn: Sendable {
    private let state = Mutex<(isServing: Bool, end: End?)>((false, nil))
    private let lastHolder = Mutex<String?>(nil)

    var end: End? { state.withLock { $0.end } }

    /// Whether the node that serves is another one than before.
    func isNew(holder: String) -> Bool {
      lastHolder.withLock { last in
        defer { last = holder }
        return last != holder
      }
    }

    func begin() { state.withLock { $0.isServing = true } }

    /// Ends the service, if there is one.
    func end(_ reason: End) {
      let isFirst = state.withLock { state in
        guard state.isServing, state.end == nil else { return false }
        state.end = reason
        return true
      }
      if isFirst { Service.requestStop() }
    }
  }

  init(
    _ directory: DataDirectory, _ member: ClusterMember, log: Log, isAnnounced: Bool
  ) {
    self.member = member
    self.log = log
    self.isAnnounced = isAnnounced
    let turn = Turn()
    self.turn = turn
    follower = ClusterFollower(
      directory, member, program: Program.version, log: log,
      onOrders: { orders in
        if orders.isDraining, orders.standbyCount > 0 { turn.end(.drained) }
      }, onRemoval: { turn.end(.removed) })
  }

  /// Waits until the node may serve. Nil if the operator stopped it before.
  func standBy(_ configuration: ServerConfiguration) throws(CommandFailure) -> Service? {
    do { try follower.catchUp() } catch { throw CommandFailure(.configuration, "\(error)") }
    try requireMembership()
    follower.start()
    var configuration = configuration
    configuration.node = NodeServing(
      name: member.node.text,
      onHolder: { [log, manager, turn, isAnnounced] holder in
        guard turn.isNew(holder: holder) else { return }
        if isAnnounced {
          Output.json(.members(["event": .string("standby"), "serving": .string(holder)]))
        }
        log(.notice, "standing by", .text("serving", holder))
        manager?.ready("standing by: \(holder) serves")
      },
      permission: { [follower, manager] in
        manager?.isAlive()
        if Service.takeStopSignal() || follower.isRemoved { return .giveUp }
        return follower.orders?.isDraining == true ? .wait : .takeOver
      },
      onTurn: { [follower] in try follower.pull() },
      onTakeOver: { [turn] in turn.end(.takenOver) })
    let service: Service?
    do { service = try Service.standingBy(configuration) } catch {
      follower.stop()
      throw CommandFailure(.configuration, "\(error)")
    }
    guard let service else {
      follower.stop()
      try requireMembership()
      return nil
    }
    turn.begin()
    return service
  }

  private func requireMembership() throws(CommandFailure) {
    guard follower.isRemoved else { return }
    throw CommandFailure(
      .configuration, "the node \(member.node.text) was removed from the cluster",
      remedy: "Join again with an empty data directory: `apus cluster join`.")
  }

  /// Call it once the service accepts connections.
  func serves() {
    follower.setRole(.serving)
    log(.notice, "serving", .text("node", member.node.text))
  }

  /// Call it once the service has stopped. Does not return if the node goes on as a standby.
  func stepDown() throws(CommandFailure) {
    follower.stop()
    switch turn.end {
    case nil: return
    case .removed: try requireMembership()
    case .drained:
      log(.notice, "stepped down", .text("reason", "the node is being drained"))
      Process.beginAgain()
    case .takenOver:
      log(.warning, "stepped down", .text("reason", "another node has taken over"))
      Process.beginAgain()
    }
  }
}
