import ApusLease

/// What a process asks of the database.
enum LeaseStatement {
  case look(part: Int)
  /// Connects to the part's database, if that is not the one of the leases.
  case connect(part: Int)
  /// How many connections the process with this lease has.
  case count(part: Int, Lease)
  case claim(part: Int, seen: Lease?)
  case lane(part: Int, Int64)
  /// Ends the connections of the process that has the lane.
  case terminate(part: Int)
  case read(part: Int, Int64)
  case renew(part: Int, Int64)
  case write(part: Int, Int64)
  case release(part: Int, Int64)

  /// The part whose tables it is about; nil for the leases.
  var part: Int? {
    switch self {
    case .look, .claim, .renew, .release: nil
    case .connect(let part), .count(let part, _), .lane(let part, _), .terminate(let part),
      .read(let part, _), .write(let part, _):
      part
    }
  }
}

enum LeaseAnswer {
  case lease(Lease?)
  case count(Int)
  /// The incarnation; nil if the lease is not as it was seen.
  case claimed(Int64?)
  case done
  /// Another process holds the lane.
  case blocked
  /// Another process has taken over.
  case refused
  /// The connection is lost: what was asked takes effect, has done so, or never will.
  case lost
}

/// A process of a node, to the database.
struct LeaseClient: Hashable {
  let node: String
  /// Grows with each start of any process.
  let number: Int
}

/// The rows that nodes share, of which some parts' are in a database of their own. Statements take effect at once, but
/// for writes, which hold their lane until they commit.
struct LeaseDatabase {
  private struct Part {
    var lease: Lease?
    /// The last one given.
    var incarnation: Int64 = 0
    var lane: Int64 = 0
    var lock: (client: LeaseClient, incarnation: Int64)?
    /// The last one that has read.
    var reader: Int64 = 0
    /// The processes that are connected for the part, with their incarnations.
    var clients: [LeaseClient: Int64] = [:]
  }

  private var parts: [Part]
  /// The parts that have a database of their own.
  let apart: Set<Int>
  private let canary: LeaseCanary?
  var laws = LeaseLaws()

  init(parts count: Int, apart: Set<Int>, canary: LeaseCanary?) {
    self.apart = apart
    parts = (0..<count).map { _ in Part() }
    self.canary = canary
  }

  /// Nil if it has to wait.
  mutating func execute(_ statement: LeaseStatement, by client: LeaseClient) -> LeaseAnswer? {
    switch statement {
    case .look(let part): return .lease(parts[part].lease)
    case .connect: return .done
    case .count(let part, let lease):
      return .count(
        parts[part].clients.count { $0.key.node == lease.holder && $0.value == lease.incarnation })
    case .claim(let part, let seen): return .claimed(claim(part, seen, client))
    case .lane(let part, let incarnation):
      if let lock = parts[part].lock, lock.client != client { return nil }
      guard incarnation >= parts[part].lane else { return .refused }
      parts[part].lane = incarnation
      laws.counts.takeOvers += 1
      return .done
    case .terminate(let part):
      laws.counts.terminations += 1
      for (other, incarnation) in parts[part].clients where incarnation == parts[part].lane {
        disconnect(other)
      }
      return .done
    case .read(let part, let incarnation):
      parts[part].reader = max(parts[part].reader, incarnation)
      parts[part].clients[client] = incarnation
      return .done
    case .renew(let part, let incarnation):
      guard parts[part].lease?.incarnation == incarnation else { return .refused }
      if !apart.contains(part) { parts[part].clients[client] = incarnation }
      parts[part].lease?.counter += 1
      laws.counts.renewals += 1
      return .done
    case .write(let part, let incarnation):
      guard parts[part].lane == incarnation else { return .refused }
      parts[part].clients[client] = incarnation
      parts[part].lock = (client, incarnation)
      return nil
    case .release(let part, let incarnation):
      if parts[part].lease?.incarnation == incarnation { parts[part].lease?.isReleased = true }
      return .done
    }
  }

  private mutating func claim(_ part: Int, _ seen: Lease?, _ client: LeaseClient) -> Int64? {
    parts[part].incarnation += 1
    let lease = parts[part].lease
    let isAsSeen =
      switch canary {
      case .claimsWithoutCompare: true
      case .claimsWithoutCounter: lease?.incarnation == seen?.incarnation
      default: lease?.incarnation == seen?.incarnation && lease?.counter == seen?.counter
      }
    guard isAsSeen else { return nil }
    let incarnation = parts[part].incarnation
    parts[part].lease = Lease(
      incarnation: incarnation, counter: (lease?.counter ?? 0) + 1, holder: client.node)
    let own = parts.indices.filter {
      parts[$0].lease?.holder == client.node && parts[$0].lease?.isReleased == false
    }
    if own.count > 1 { laws.broken(.oneLease, "\(client.node) has the leases of \(own)") }
    return incarnation
  }

  /// Whether the process still holds the lane that its write took.
  func isWriting(_ client: LeaseClient, _ part: Int) -> Bool { parts[part].lock?.client == client }

  /// The write of a process takes effect.
  mutating func commit(_ part: Int) {
    guard let lock = parts[part].lock else { return }
    parts[part].lock = nil
    laws.counts.writes += 1
    if parts[part].reader > lock.incarnation {
      laws.broken(
        .noLateWrite,
        "\(lock.client.node) writes part \(part) as \(lock.incarnation), read by \(parts[part].reader)"
      )
    }
  }

  /// A process has no connection any more, and its open transactions end.
  mutating func disconnect(_ client: LeaseClient) {
    for part in parts.indices {
      parts[part].clients[client] = nil
      if parts[part].lock?.client == client { parts[part].lock = nil }
    }
  }
}
