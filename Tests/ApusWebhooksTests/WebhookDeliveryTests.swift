import Testing

@testable import ApusWebhooks

@Suite("When a webhook's events are sent")
struct WebhookDeliveryTests {
  @Test("Events are sent from the first that was not delivered")
  func order() {
    var delivery = WebhookDelivery(position: 5)
    #expect(delivery.action(next: 5, nowMilliseconds: 0) == .idle)
    #expect(delivery.action(next: 6, nowMilliseconds: 0) == .send(from: 5))
    delivery.succeeded(before: 8)
    #expect(delivery.action(next: 8, nowMilliseconds: 0) == .idle)
    #expect(delivery.action(next: 9, nowMilliseconds: 0) == .send(from: 8))
    // An outdated success does not repeat what was delivered.
    delivery.succeeded(before: 3)
    #expect(delivery.position == 8)
  }

  @Test("Pauses after failures double up to five minutes, and a success ends them")
  func pauses() {
    var delivery = WebhookDelivery(position: 1)
    for (failures, pause) in [
      (1, 1000), (2, 2000), (3, 4000), (4, 8000), (5, 16_000), (6, 32_000), (7, 64_000),
      (8, 128_000), (9, 256_000), (10, 300_000), (11, 300_000),
    ] as [(Int, Int64)] {
      delivery.failed(nowMilliseconds: 1_000_000, share: 0)
      #expect(delivery.failures == failures)
      let due = 1_000_000 + pause
      #expect(
        delivery.action(next: 2, nowMilliseconds: due - 1) == .wait(untilMilliseconds: due))
      #expect(delivery.action(next: 2, nowMilliseconds: due) == .send(from: 1))
    }
    for _ in 0..<100 { delivery.failed(nowMilliseconds: 0, share: 1) }
    #expect(delivery.action(next: 2, nowMilliseconds: 239_999) == .wait(untilMilliseconds: 240_000))
    delivery.succeeded(before: 2)
    #expect(delivery.failures == 0)
    #expect(delivery.action(next: 3, nowMilliseconds: 0) == .send(from: 2))
  }
}
