import ApusLease
import ApusModel
import ApusThread

/// A process's right to write into a database: the result of ``PostgresOpening``.
struct PostgresTenure: Sendable {
  let node: String
  /// Of a cluster's devices.
  let part: Int
  let incarnation: Int64
  /// That of the process before.
  let predecessor: Int64
  /// When the lease was asked for, by `bootMilliseconds`.
  let takenMilliseconds: UInt64
  /// How far the database was at that time.
  let progress: DatabaseProgress
  /// The database's id: 16 bytes, made with its tables.
  let databaseID: [UInt8]

  /// The name of the lease.
  var lease: String { PostgresStatements.schema(part) }

  /// What `pg_stat_activity` shows as the application of the process's connections.
  var connectionName: String { Self.connectionName(node, part, incarnation) }

  /// Each part counts its own incarnations.
  static func connectionName(_ node: String, _ part: Int, _ incarnation: Int64) -> String {
    part == 0 ? "apus/\(node)/\(incarnation)" : "apus/\(node)/\(part)-\(incarnation)"
  }
}

/// Takes a database over from an earlier process, or of several parts of a cluster's devices the first that is free.
///
/// The order matters: no write of the earlier process may take effect after this one's first read. So its lane is taken
/// first, which waits for its open transaction; only then, in a new statement, is anything read.
struct PostgresOpening {
  let databases: PartDatabases
  let options: PostgresOptions

  /// The only lane of a service that runs on one node.
  static let lane: Int32 = 0
  /// Milliseconds for a statement of the opening.
  static let statementMilliseconds: Int64 = 10_000
  /// Milliseconds for which an earlier process's open transaction is waited for before its connections are ended.
  static let transactionMilliseconds: Int64 = 200
  private static let pollMilliseconds: Int64 = 250

  /// Waits for a database that is not reached; a standby for as long as it may.
  func open() throws(StoreError) -> PostgresTenure {
    let deadline = Deadline.after(milliseconds: options.openingMilliseconds)
    var pause = options.retryMilliseconds
    while true {
      do throws(StoreError) { return try openNow() } catch {
        let mayWait = options.standby != nil || Deadline.after(milliseconds: pause) < deadline
        guard case .database = error, mayWait else { throw error }
        if options.standby?.permission() == .giveUp { throw .closed }
        options.onEvent(.stillFailing(error, retryMilliseconds: pause))
        ApusThread.pause(milliseconds: pause)
        pause = min(2 * pause, options.maximumRetryMilliseconds)
      }
    }
  }

  private func openNow() throws(StoreError) -> PostgresTenure {
    let main = try LeaseCandidate(databases, options, part: 0)
    var candidates = try LeaseCandidates(databases, options, main)
    var search = LeaseSearch(
      node: options.node, standsBy: options.standby != nil, count: candidates.count,
      options.leaseRules)
    while true {
      let (place, seen) = try waitForLease(main, &candidates, &search)
      // Nil if its holder has renewed it since, or another process took it.
      if let tenure = try candidates.takeOver(place, seen) { return tenure }
    }
  }

  /// Returns once one of the leases may be taken: it was released, its process has no connection any more, or its
  /// counter stood still. A standby waits for that; others are refused.
  private func waitForLease(
    _ main: LeaseCandidate, _ candidates: inout LeaseCandidates, _ search: inout LeaseSearch
  ) throws(StoreError) -> (place: Int, seen: Lease?) {
    while true {
      let leases = try main.leases()
      for place in 0..<candidates.count {
        let seen = leases[candidates.leaseName(of: place)]
        let isAsked = search.see(seen, at: place, nowMilliseconds: monotonicMilliseconds())
        switch try candidates.look(at: place, seen, isAsked: isAsked) {
        case .away: search.isAway(at: place)
        case .gone: search.isGone(at: place)
        case .present: break
        }
      }
      let permission = options.standby?.permission() ?? .takeOver
      if permission == .giveUp { throw .closed }
      switch search.decide(mayTake: permission == .takeOver) {
      case .take(let place, let seen): return (place, seen)
      case .giveBack(let place, let seen):
        main.giveBack(candidates.leaseName(of: place), seen.incarnation)
      case .refused(let name):
        throw .inUse(
          place: databases.main.description, detail: "a process called \(name) renews its lease")
      case .wait(let holders):
        if !holders.isEmpty {
          options.standby?.onHolder(Set(holders).sorted().joined(separator: ", "))
        }
      }
      pause(milliseconds: Self.pollMilliseconds)
    }
  }
}
