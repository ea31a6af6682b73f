import ApusModel
import ApusStore
import ApusTesting
import Testing

@Suite("Lines of the ledger for which there is no room while the store fails")
struct LedgerLossTests {
  @Test("They are counted in the metrics, and logged")
  func lost() throws {
    let store = MemoryStore()
    let monitored = try MonitoredService {
      // Three lines or so.
      ($0.isBehindEdge, $0.store, $0.ledgerWaitingBytes) = (false, store, 150)
    }
    let metric = "apus_ledger_lines_lost_total"
    #expect(try monitored.metric(metric) == 0)
    let pusher = try QuietPusher(monitored.service)
    let device = try monitored.service.connect()
    let headers = pusher.headers(try device.token()).setting("apns-expiration", "0")
    try device.enable(TestDirectory.topic)
    try device.settle()
    store.failNextCommits(.max, with: .unavailable)
    for _ in 0..<10 {
      let stream = try pusher.client.request(headers, body: TestService.payload)
      try device.acknowledge(device.notification())
      #expect(try pusher.client.response(to: stream).status == 200)
    }
    try waitUntil("lines to be lost") { try monitored.metric(metric) ?? 0 >= 10 }
    let lost = try monitored.metric(metric)
    #expect(monitored.sum("lines", of: "ledger lines lost while the store fails") == lost)
  }
}
