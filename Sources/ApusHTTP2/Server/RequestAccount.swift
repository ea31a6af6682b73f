/// A session's account in the pool of its worker: whose requests it takes, and returns.
struct RequestAccount {
  private(set) var pool: HTTP2RequestPool
  /// -1 between two pools.
  private var number: Int32

  init(_ pool: HTTP2RequestPool, of party: RequestParty) {
    self.pool = pool
    number = pool.openAccount(of: party)
  }

  /// False between two pools.
  var isOpen: Bool { number >= 0 }

  // MARK: Requests

  /// A request to fill; nil if none is available to a session with `held` requests.
  func take(held: Int) -> HTTP2Request? { pool.take(number, held: held) }

  func takeHeaderFrame(held: Int) -> Bool { pool.takeHeaderFrame(number, held: held) }

  func giveHeaderFrames(_ count: Int) {
    for _ in 0..<count { pool.giveHeaderFrame(number) }
  }

  // MARK: Moving

  /// Leaves the pool, and takes `requests` along.
  mutating func leave(with requests: [HTTP2Request]) {
    for request in requests { pool.leave(request) }
    close()
  }

  /// Continues in another pool.
  mutating func join(
    _ pool: HTTP2RequestPool, of party: RequestParty, with requests: [HTTP2Request]
  ) {
    self.pool = pool
    number = pool.openAccount(of: party)
    for request in requests { pool.join(request, number) }
  }

  /// Continues as the account of `party`.
  mutating func change(to party: RequestParty, with requests: [HTTP2Request]) {
    let former = number
    number = pool.openAccount(of: party)
    for request in requests {
      pool.leave(request)
      pool.join(request, number)
    }
    pool.closeAccount(former)
  }

  /// The session has ended, or leaves the pool. Requests that the application still has stay on the account.
  mutating func close() {
    pool.closeAccount(number)
    number = -1
  }
}
