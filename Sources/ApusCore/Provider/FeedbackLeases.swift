package import ApusModel

/// Who reads which feedback at the moment.
///
/// A row of a list (one topic in one environment) that a connection was given is kept from all others until that
/// connection is over: a second reader gets only what the first was not given. Rows are known by their tokens, of which
/// a list has one each. Nothing here is stored: after a restart all rows are free again.
///
/// A row is to be offered (`take`) as soon as it was read from the store. One that was set aside may have gone to
/// another reader, and out of the store, before it is offered; it then goes out twice, which readers put up with.
package struct FeedbackLeases: Sendable {
  /// Names a lease. Never used again.
  package struct ID: Hashable, Sendable {
    fileprivate var number: UInt64
  }

  /// A row as the reader was given it.
  package struct Row: Hashable, Sendable {
    package var token: DeviceToken
    /// Unix milliseconds.
    package var milliseconds: Int64

    package init(token: DeviceToken, milliseconds: Int64) {
      self.token = token
      self.milliseconds = milliseconds
    }
  }

  private struct List: Hashable {
    var topic: TopicKey
    var environment: Environment
  }

  private struct Lease {
    var list: List
    var rows: [Row] = []
  }

  /// What all leases of one list hold.
  private struct Held {
    var tokens: Set<DeviceToken> = []
    var leases = 1
  }

  private let maximumRows: Int
  private var lastNumber: UInt64 = 0
  private var leases: [ID: Lease] = [:]
  private var held: [List: Held] = [:]

  /// - Parameter maximumRows: rows of one lease.
  package init(maximumRows: Int = Limits.feedbackTuplesPerConnection) {
    self.maximumRows = maximumRows
  }

  /// Leases that are open.
  package var count: Int { leases.count }

  /// Begins a lease of the list.
  package mutating func open(_ topic: TopicKey, _ environment: Environment) -> ID {
    lastNumber += 1
    let lease = ID(number: lastNumber)
    let list = List(topic: topic, environment: environment)
    leases[lease] = Lease(list: list)
    if held[list] == nil { held[list] = Held() } else { held[list]?.leases += 1 }
    return lease
  }

  /// Whether the row is for this lease, which then holds it. False where
  /// - another lease of the list holds the token;
  /// - this lease holds it, at another time: the token was renewed meanwhile. Its new row is for the next reader. Were
  ///   it given out here, a token that is renewed all the time would keep a reader for ever;
  /// - the lease is full (`isFull`) or closed.
  package mutating func take(
    _ token: DeviceToken, milliseconds: Int64, for lease: ID
  ) -> Bool {
    guard let list = leases[lease]?.list, !isFull(lease),
      held[list]?.tokens.insert(token).inserted == true
    else { return false }
    leases[lease]?.rows.append(Row(token: token, milliseconds: milliseconds))
    return true
  }

  /// Whether the lease takes no more rows; those that follow are for the next connection.
  package func isFull(_ lease: ID) -> Bool {
    leases[lease].map { $0.rows.count >= maximumRows } ?? true
  }

  /// The lease's rows in the order in which it took them: to be removed from the store once the reader took them all,
  /// each by its time. Empty for a closed lease. Costs no copy as long as the lease takes nothing more.
  package func rows(of lease: ID) -> [Row] { leases[lease]?.rows ?? [] }

  /// Ends the lease: its rows were removed from the store or go back, and others may have them. Closing again does
  /// nothing.
  package mutating func close(_ lease: ID) {
    guard let closed = leases.removeValue(forKey: lease),
      let place = held.index(forKey: closed.list)
    else { return }
    held.values[place].leases -= 1
    guard held.values[place].leases > 0 else {
      held.remove(at: place)
      return
    }
    for row in closed.rows { held.values[place].tokens.remove(row.token) }
  }
}
