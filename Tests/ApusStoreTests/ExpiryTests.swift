import ApusModel
import ApusStore
import Foundation
import Testing

@Suite("Finding expired notifications")
struct ExpiryTests {
  private func place(_ device: UInt64) -> MailboxKey {
    MailboxKey(
      device: DeviceID(device), topic: TopicKey(app: AppID(1)), environment: .production)
  }

  private func record(expirationSeconds: Int64) -> [UInt8] {
    let zero = NotificationID(high: 0, low: 0)
    var value: [UInt8] = []
    let payload = Array(#"{"aps":{}}"#.utf8)
    StoredNotification.encode(
      StoredNotification.Fields(
        acceptanceOrder: 7, expirationSeconds: expirationSeconds, acceptedMilliseconds: 0,
        messageID: 8, id: zero, uniqueID: zero, token: DeviceToken(words: (1, 2, 3, 4)),
        priority: .immediate, pushType: nil, flags: 0),
      collapseID: Span(), payload: payload.span, into: &value)
    return value
  }

  /// Has a store find now what it finds at its own pace.
  private func find(in store: any DurableStore, nowSeconds: Int64) throws {
    try (store as? RocksStore)?.compact(.mailbox)
    (store as? PostgresStore)?.searchExpired(nowSeconds: nowSeconds)
  }

  @Test("The store reports each expired row, and no other", arguments: Engine.allCases)
  func found(engine: Engine) async throws {
    let scratch = Scratch()
    let store = try engine.make(in: scratch)
    let now = Int64(Date().timeIntervalSince1970)
    #expect(
      await commit(store) { group in
        for device in 1...100 as ClosedRange<UInt64> {
          let key = place(device).encoded()
          let expiration = device.isMultiple(of: 10) ? now - 5 : now + 3600
          group.put(.mailbox, key: key.span, value: record(expirationSeconds: expiration).span)
        }
      } == nil)
    try find(in: store, nowSeconds: now)
    var found: [MailboxKey] = []
    for _ in 0..<4 { store.takeExpired(nowSeconds: now, limit: 30, into: &found) }
    #expect(Set(found) == Set((1...10).map { place(10 * $0) }))
    // The rows themselves are left to the caller.
    for device in 1...100 as ClosedRange<UInt64> {
      let key = place(device).encoded()
      #expect(try store.get(.mailbox, key: key.span) != nil)
    }
    store.close()
  }

  @Test("A value that is not a notification is not reported", arguments: Engine.allCases)
  func foreign(engine: Engine) async throws {
    let scratch = Scratch()
    defer { withExtendedLifetime(scratch) {} }
    let store = try engine.make(in: scratch)
    #expect(
      await commit(store) {
        $0.put(.mailbox, [UInt8](repeating: 1, count: 13), [])
        $0.put(.mailbox, [UInt8](repeating: 2, count: 13), [1, 2, 3])
        $0.put(.mailbox, [UInt8](repeating: 3, count: 13), [UInt8](repeating: 0xff, count: 90))
        $0.put(.mailbox, [4], [2] + [UInt8](repeating: 0, count: 90))
      } == nil)
    try find(in: store, nowSeconds: .max - 1)
    var found: [MailboxKey] = []
    store.takeExpired(nowSeconds: .max - 1, limit: 100, into: &found)
    #expect(found.isEmpty)
    store.close()
  }
}
