import ApusModel
import ApusStore
import ApusTesting
import Testing

/// A write that failed, and that the store has kept all the same.
@Suite("What a store has kept of a failed write is read before the next write")
struct DoubtfulStoreTests {
  private let store = MemoryStore()
  private let service: TestService
  private let pusher: QuietPusher
  private let token: String

  init() throws {
    let store = store
    service = try TestService(nil, .init { ($0.isBehindEdge, $0.store) = (false, store) })
    pusher = try QuietPusher(service)
    let device = try service.connect()
    token = try device.token()
    try device.enable(TestDirectory.topic)
    try device.settle()
    device.client.tls.reset()
    try waitUntil("the device to be offline") { service.service.connectionCount() == 1 }
  }

  private func push() throws -> Int? {
    let headers = pusher.headers(token)
      .setting("apns-expiration", "\(TestDirectory.nowSeconds + 3600)")
    let stream = try pusher.client.request(headers, body: TestService.payload)
    return try pusher.client.response(to: stream).status
  }

  private func rowCount() throws -> Int {
    var count = 0
    try store.scan(.mailbox, prefix: Span()) { _, _ in
      count += 1
      return true
    }
    return count
  }

  @Test("While it cannot be read, nothing is written, although the store would take it again")
  func unreadable() throws {
    store.failNextCommits(
      1, with: .inputOutput(path: "store", detail: "on purpose"), isKept: true)
    #expect(try push() == 503)
    #expect(try rowCount() == 1)
    // Only the first read fails.
    store.failNextReads(1)
    #expect(try push() == 503)
    #expect(try rowCount() == 1)
    // Now it is known, and replaced.
    #expect(try push() == 200)
    #expect(try rowCount() == 1)
    try waitUntil("it to be counted") {
      let counts = service.service.counts()
      return counts[.replaced] == 1
    }
  }
}
