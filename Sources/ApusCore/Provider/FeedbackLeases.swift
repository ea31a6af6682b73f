package import ApusModel

/// Which connection is reading which feedback.
///
/// While a connection reads a row of a list (one topic in one environment), no other connection gets it: a second
/// reader gets only rows that the first was not given. Rows are identified by their tokens, of which a list has one
/// each. Leases are not stored: after a restart all rows are free again.
///
/// Offer a row (`take`) as soon as it is read from the store. A row that is kept back may go to another reader and be
/// removed from the store before it is offered; it is then sent twice, which readers tolerate.
package struct FeedbackLeases: Sendable {
  /// Identifies a lease. Never reused.
  package struct ID: Hashable, Sendable {
    fileprivate var number: UInt64
  }

  /// A row as it was given to the reader.
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

  /// The tokens of all leases of one list.
  private struct Held {
    var tokens: Set<DeviceToken> = []
    var leases = 1
  }

  private let maximumRows: Int
  private var lastNumber: UInt64 = 0
  private var leases: [ID: Lease] = [:]
  private var held: [List: Held] = [:]

  /// - Parameter maximumRows: The rows of one lease.
  package init(maximumRows: Int = Limits.feedbackTuplesPerConnection) {
    self.maximumRows = maximumRows
  }

  /// Open leases.
  package var count: Int { leases.count }

  /// Opens a lease of the list.
  package mutating func open(_ topic: TopicKey, _ environment: Environment) -> ID {
    lastNumber += 1
    let lease = ID(number: lastNumber)
    let list = List(topic: topic, environment: environment)
    leases[lease] = Lease(list: list)
    if held[list] == nil { held[list] = Held() } else { held[list]?.leases += 1 }
    return lease
  }

  /// Adds the row to this lease. False if
  /// - another lease of the list holds the token;
  /// - this lease holds it with another time: the token was renewed meanwhile. Its new row is for the next reader; if
  ///   it were given to this one, a token that is renewed all the time would keep a reader for ever;
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

  /// Whether the lease takes no more rows; further ones are for the next connection.
  package func isFull(_ lease: ID) -> Bool {
    leases[lease].map { $0.rows.count >= maximumRows } ?? true
  }

  /// The lease's rows in the order of taking: remove them from the store, each with its time, once the reader has
  /// received them all. Empty for a closed lease. Not copied unless the lease takes more rows.
  package func rows(of lease: ID) -> [Row] { leases[lease]?.rows ?? [] }

  /// Closes the lease: its rows were removed from the store or are free for others. Closing it again has no effect.
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
