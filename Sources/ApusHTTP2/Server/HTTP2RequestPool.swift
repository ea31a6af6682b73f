import ApusModel

/// The requests of one worker's connections. They are reused: a steady load allocates none.
package final class HTTP2RequestPool {
  /// Unchecked: see ``HTTP2ServerSession``.
  @exclusivity(unchecked) private var free: [HTTP2Request] = []
  @exclusivity(unchecked) private var allotment = RequestAllotment()
  /// The most requests in use since ``hasShrunk()`` was last true.
  private var peakCount = 0
  private let keptCount: Int
  /// Memory for the text of the field being decoded.
  let texts = HeaderTexts()
  /// Streams refused, because others have the requests or because the connection has its most.
  package private(set) var refusedCount: UInt64 = 0

  /// - Parameter keptCount: Requests kept for reuse.
  package init(keptCount: Int = Limits.pooledRequests) {
    self.keptCount = keptCount
    unsafe free.reserveCapacity(keptCount)
  }

  /// Requests in use, on all connections together.
  package var openCount: Int { unsafe allotment.openCount }

  // MARK: Accounts

  /// A session begins; returns the account of its requests.
  func openAccount(of party: RequestParty) -> Int32 { unsafe allotment.openAccount(of: party) }

  /// A session ends. Requests that the application still has stay on the account.
  func closeAccount(_ account: Int32) { unsafe allotment.closeAccount(account) }

  // MARK: Requests

  /// A request to fill; nil if none is available to a session with `held` requests.
  func take(_ account: Int32, held: Int) -> HTTP2Request? {
    guard unsafe allotment.take(account, held: held) else { return nil }
    let request = unsafe free.popLast() ?? HTTP2Request()
    request.account = account
    return request
  }

  func noteRefused() { refusedCount &+= 1 }

  /// Counts a frame of an incomplete header block as a request; false if there is no room for it.
  func takeHeaderFrame(_ account: Int32, held: Int) -> Bool {
    unsafe allotment.take(account, held: held)
  }

  func giveHeaderFrame(_ account: Int32) { unsafe allotment.give(account) }

  /// The open request moves to another pool, or to another account.
  func leave(_ request: HTTP2Request) { unsafe allotment.give(request.account) }

  /// The open request came from another pool, or from another account.
  func join(_ request: HTTP2Request, _ account: Int32) {
    request.account = account
    unsafe allotment.join(account)
  }

  func give(_ request: HTTP2Request) {
    unsafe peakCount = max(peakCount, allotment.openCount)
    unsafe allotment.give(request.account)
    if unsafe free.count < keptCount { unsafe free.append(request) }
  }

  /// Takes a request back from the application, even after its connection ended.
  package func release(_ request: HTTP2Request) {
    guard request.state.contains(.withApplication) else { return }
    request.state.remove(.withApplication)
    if !request.isInUse { give(request) }
  }

  // MARK: Memory

  /// Whether far more requests were in use than the pool keeps, and were returned: true once per such crowd.
  package func hasShrunk() -> Bool {
    guard peakCount > 2 * keptCount, openCount < peakCount / 4 else { return false }
    peakCount = openCount
    return true
  }

  /// Frees the pooled requests.
  package func forgetFree() { unsafe free.removeAll() }
}
