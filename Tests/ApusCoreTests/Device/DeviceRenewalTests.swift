import ApusModel
import Testing

@testable import ApusCore

@Suite("Reused device objects")
struct DeviceRenewalTests {
  private static let topic = TopicRegistration(
    topic: TopicKey(app: AppID(3)), generation: 7, state: .enabled, wasListed: true,
    stateSinceMilliseconds: 5, generationSinceMilliseconds: 6)
  private static let facts = NotificationFacts(
    order: 1, id: NotificationID(high: 1, low: 2), uniqueID: NotificationID(high: 3, low: 4),
    device: DeviceID(1), topic: topic.topic, environment: .production, tokenPrefix: 5,
    pushType: .voip, priority: .powerSaving, interface: .binary)

  /// Each property as text, by name.
  private func properties(_ device: Device) -> [String: String] {
    var properties: [String: String] = [:]
    for child in Mirror(reflecting: device).children {
      properties[child.label ?? ""] = String(reflecting: child.value)
    }
    return properties
  }

  /// At rest, and different from a new device wherever rest allows it.
  private func used() -> Device {
    let device = Device(
      key: DeviceKey(id: DeviceID(1), environment: .development),
      registration: Registration(topics: [Self.topic]))
    device.isAbridged = true
    _ = device.requests.take(
      RateLimit(capacity: 10, refill: 1), of: Self.topic.topic, atMilliseconds: 1000)
    device.keyFingerprint = [1, 2]
    device.issuedSeconds = 8
    device.connectionSlot = 9
    device.newestGrouped = 10
    (device.recordVersion, device.durableRecordVersion) = (11, 11)
    _ = Device.takeoverLimit.take(from: &device.takeovers, atMilliseconds: 1000)
    device.lastSeenMilliseconds = 13
    device.backgroundPushes[Self.topic.topic] = RateLimit.Bucket()
    device.loadStored([StoredFacts(facts: Self.facts)])
    device.writtenOrders[MailboxSlot(topic: Self.topic.topic)] = 12
    device.drain = .due
    return device
  }

  @Test("Nothing of the previous device remains")
  func renewed() {
    let key = DeviceKey(id: DeviceID(2), environment: .production)
    let registration = Registration()
    let fresh = properties(Device(key: key, registration: registration))
    let device = used()
    // Properties that a device at rest shares with a new one. A property in neither list must be reset, or added here.
    let atRest: Set<String> = [
      "retiredMilliseconds", "session", "pendingWrites", "lingeringWrites", "overflowOrders",
      "endedOrders", "unwrittenOrders", "awaitsRetry", "mustDrainAgain", "isDirty",
    ]
    let before = properties(device)
    #expect(Set(before.filter { fresh[$0.key] == $0.value }.keys) == atRest)
    device.renew(key, registration)
    #expect(properties(device) == fresh)
  }

  @Test("A single stored notification, or none, is represented like a list")
  func stored() {
    let device = used()
    device.loadStored(only: nil)
    #expect(device.knowsStored && device.stored.isEmpty && device.onlyStored == nil)
    device.loadStored(only: Self.facts)
    #expect(device.knowsStored && device.stored == [StoredFacts(facts: Self.facts)])
    #expect(device.onlyStored == Self.facts && device.storedCount == 1)
    device.loadStored([StoredFacts(facts: Self.facts, collapseID: [1])])
    #expect(device.onlyStored == nil && device.storedCount == 1)
  }
}
