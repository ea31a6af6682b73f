import ApusLease
import ApusModel
import ApusThread

/// The parts of which a process takes one, with a connection to the tables of each.
///
/// A database that has only some parts keeps no node from the others: it is left out while something is wrong with it,
/// and tried again now and then, by ``DatabaseAttempts``.
struct LeaseCandidates {
  private struct Place {
    let part: Int
    var candidate: LeaseCandidate?
    /// Why there is none, as the operator was told.
    var fault: StoreError?
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
  private var attempts: DatabaseAttempts

  init(
    _ databases: PartDatabases, _ options: PostgresOptions, _ main: LeaseCandidate
  ) throws(StoreError) {
    (self.databases, self.options, self.main) = (databases, options, main)
    places = (options.parts ?? options.part..<options.part + 1).map { part in
      Place(part: part, candidate: part == 0 ? main : nil)
    }
    attempts = DatabaseAttempts(count: places.count)
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
    guard attempts.mayTry(place, nowMilliseconds: monotonicMilliseconds()) else { return nil }
    let part = places[place].part
    let reached = try attempt(place) { [databases, options] () throws(StoreError) in
      try LeaseCandidate(databases, options, part: part)
    }
    guard let reached else { return nil }
    attempts.reached(place)
    (places[place].candidate, places[place].fault) = (reached, nil)
    return reached
  }

  /// Returns nil, and leaves the place out for a while, if something is wrong with a database without which the process
  /// may do.
  private mutating func attempt<Result>(
    _ place: Int, _ body: () throws(StoreError) -> Result
  ) throws(StoreError) -> Result? {
    let began = monotonicMilliseconds()
    do throws(StoreError) { return try body() } catch {
      guard options.standby != nil, databases.places[places[place].part] != nil else { throw error }
      let pause = attempts.failed(
        place, fromMilliseconds: began, nowMilliseconds: monotonicMilliseconds())
      if places[place].fault != error {
        options.onEvent(.stillFailing(error, retryMilliseconds: pause))
      }
      (places[place].candidate, places[place].fault) = (nil, error)
      return nil
    }
  }
}
