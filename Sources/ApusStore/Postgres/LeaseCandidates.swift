import ApusLease
import ApusModel
import ApusThread

/// The parts of which a process takes one, with a connection to the tables of each.
///
/// A database that has only some parts keeps no node from the others: it is left out while something is wrong with it,
/// and tried again now and then.
struct LeaseCandidates {
  private struct Place {
    let part: Int
    var candidate: LeaseCandidate?
    /// Why there is none, as the operator was told.
    var fault: StoreError?
    var retry = Deadline.after(milliseconds: 0)
    /// Until then a failure is not the first one.
    var rowEnd = Deadline.after(milliseconds: 0)
  }

  enum Look {
    /// The process of the lease has no connection.
    case gone
    case present
    /// The part's database is not reached, or cannot be used.
    case away
  }

  private let databases: PartDatabases
  private let options: PostgresOptions
  private let main: LeaseCandidate
  private var places: [Place]

  init(
    _ databases: PartDatabases, _ options: PostgresOptions, _ main: LeaseCandidate
  ) throws(StoreError) {
    (self.databases, self.options, self.main) = (databases, options, main)
    places = (options.parts ?? options.part..<options.part + 1).map { part in
      Place(part: part, candidate: part == 0 ? main : nil)
    }
    for place in places.indices { _ = try reach(place) }
  }

  var count: Int { places.count }

  func leaseName(of place: Int) -> String { PostgresStatements.schema(places[place].part) }

  /// - Parameter isAsked: Whether it matters that the lease's process has a connection.
  mutating func look(
    at place: Int, _ seen: Lease?, isAsked: Bool
  ) throws(StoreError) -> Look {
    guard let candidate = try reach(place) else { return .away }
    guard isAsked else { return .present }
    let isGone = try attempt(place) { () throws(StoreError) in try candidate.isGone(seen) }
    return isGone.map { $0 ? .gone : .present } ?? .away
  }

  /// Nil if the lease is not as it was seen, or the part's database was lost.
  mutating func takeOver(_ place: Int, _ seen: Lease?) throws(StoreError) -> PostgresTenure? {
    guard let candidate = try reach(place) else { return nil }
    return try attempt(place) { [main] () throws(StoreError) in
      try candidate.takeOver(seen, main)
    } ?? nil
  }

  private mutating func reach(_ place: Int) throws(StoreError) -> LeaseCandidate? {
    if let candidate = places[place].candidate { return candidate }
    guard places[place].retry.isPast else { return nil }
    let part = places[place].part
    let reached = try attempt(place) { [databases, options] () throws(StoreError) in
      try LeaseCandidate(databases, options, part: part)
    }
    guard let reached else { return nil }
    (places[place].candidate, places[place].fault) = (reached, nil)
    return reached
  }

  /// Returns nil, and leaves the place out for a while, if something is wrong with a database without which the process
  /// may do.
  private mutating func attempt<Result>(
    _ place: Int, _ body: () throws(StoreError) -> Result
  ) throws(StoreError) -> Result? {
    do throws(StoreError) { return try body() } catch {
      guard options.standby != nil, databases.places[places[place].part] != nil else { throw error }
      leaveOut(place, error)
      return nil
    }
  }

  /// At first hardly: a connection that was used seldom may be lost since the database failed over. Then for longer,
  /// because no lease can be observed while the process waits for a connection.
  private mutating func leaveOut(_ place: Int, _ fault: StoreError) {
    let isFirst = places[place].rowEnd.isPast
    let pause = isFirst ? options.retryMilliseconds : options.leftOutMilliseconds
    if places[place].fault != fault {
      options.onEvent(.stillFailing(fault, retryMilliseconds: pause))
    }
    (places[place].candidate, places[place].fault) = (nil, fault)
    places[place].retry = .after(milliseconds: pause)
    places[place].rowEnd = .after(milliseconds: 2 * options.leftOutMilliseconds)
  }
}
