import ApusModel

/// Counts a worker's open requests, and decides who may open another.
///
/// A party (a team, or an address without a credential) has one account, however many connections it has. The last
/// `Limits.openRequestsReserved` requests are for teams with fewer than `Limits.openRequestsGuaranteed`. Of the others
/// a team may hold `Limits.openRequestsPerFree` times the number still free, and twice that for connections that have
/// few: one team alone gets most of them, and each further one that wants many lowers the share of all. So neither
/// another team nor untrusted peers can use up what a team needs to begin.
///
/// Untrusted parties share `Limits.openRequestsUntrusted`, where an address and an environment may hold a multiple of
/// what is still free. Beyond that each connection may have one request, because a provider becomes trusted by a
/// request; half of the reserve is kept free of those.
///
/// A connection remembers the place of its account, so that a request costs no look-up.
struct RequestAllotment: Sendable {
  private struct Account {
    var party: RequestParty
    /// Open sessions.
    var sessionCount = 0
    /// Open requests. They may outlast their session.
    var held = 0
  }

  private(set) var openCount = 0
  private(set) var untrustedCount = 0
  /// The untrusted ones, by the environment's raw value.
  private var untrustedOfEnvironment = [0, 0]
  private var accounts: [Account] = []
  private var freePlaces: [Int32] = []
  private var places: [RequestParty: Int32] = [:]

  // MARK: Accounts

  /// Parties with sessions or requests.
  var partyCount: Int { places.count }

  /// A session of `party` begins; returns the place of its account.
  mutating func openAccount(of party: RequestParty) -> Int32 {
    let place = places[party] ?? makeAccount(of: party)
    accounts[Int(place)].sessionCount += 1
    return place
  }

  private mutating func makeAccount(of party: RequestParty) -> Int32 {
    let place = freePlaces.popLast() ?? Int32(accounts.count)
    if Int(place) == accounts.count {
      accounts.append(Account(party: party))
    } else {
      accounts[Int(place)] = Account(party: party)
    }
    places[party] = place
    return place
  }

  /// A session ends.
  mutating func closeAccount(_ place: Int32) {
    accounts[Int(place)].sessionCount -= 1
    forgetIfUnused(place)
  }

  private mutating func forgetIfUnused(_ place: Int32) {
    let account = accounts[Int(place)]
    guard account.sessionCount == 0, account.held == 0 else { return }
    places[account.party] = nil
    freePlaces.append(place)
  }

  // MARK: Requests

  /// False if a session with `held` open requests may not have another now.
  mutating func take(_ place: Int32, held: Int) -> Bool {
    let account = accounts[Int(place)]
    let isAllowed =
      if let environment = account.party.untrustedEnvironment {
        allowsUntrusted(account, held: held, environment)
      } else {
        allowsTeam(account, held: held)
      }
    if isAllowed { join(place) }
    return isAllowed
  }

  private var freeCount: Int { Limits.openRequests - openCount }

  private func allowsTeam(_ account: Account, held: Int) -> Bool {
    if account.held < Limits.openRequestsGuaranteed { return freeCount > 0 }
    let perFree = Limits.openRequestsPerFree
    let share = held < Limits.openRequestsGuaranteed ? 2 * perFree : perFree
    return account.held < share * (freeCount - Limits.openRequestsReserved)
  }

  private func allowsUntrusted(
    _ account: Account, held: Int, _ environment: Environment
  ) -> Bool {
    let shared = min(
      Limits.openRequestsUntrusted - untrustedCount, freeCount - Limits.openRequestsReserved)
    let first = freeCount - Limits.openRequestsReserved / 2
    let free = held == 0 ? max(first, shared) : shared
    return account.held < Limits.untrustedPerFree * free
      && untrustedOfEnvironment[Int(environment.rawValue)]
        < Limits.untrustedPerFreeOfEnvironment * free
  }

  /// Counts a request that was allowed, here or in another pool.
  mutating func join(_ place: Int32) {
    openCount += 1
    accounts[Int(place)].held += 1
    count(accounts[Int(place)].party, 1)
  }

  mutating func give(_ place: Int32) {
    openCount -= 1
    accounts[Int(place)].held -= 1
    count(accounts[Int(place)].party, -1)
    forgetIfUnused(place)
  }

  private mutating func count(_ party: RequestParty, _ difference: Int) {
    guard let environment = party.untrustedEnvironment else { return }
    untrustedCount += difference
    untrustedOfEnvironment[Int(environment.rawValue)] += difference
  }
}
