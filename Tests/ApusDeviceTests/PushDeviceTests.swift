import ApusDevice
import ApusDirectory
import ApusLoop
import ApusModel
import ApusServer
import ApusTrust
import Testing

@Suite("An application's push device", .timeLimit(.minutes(30)))
struct PushDeviceTests {
  private func configuration(_ live: LiveService) throws -> DeviceConfiguration {
    let identity = try live.issueDevice()
    return DeviceConfiguration(
      host: "localhost", port: live.address(.courier).port,
      authorityPEM: String(decoding: try live.authorityPEM, as: UTF8.self),
      certificatePEM: identity.certificate.pem, keyPEM: identity.key.pkcs8PEM,
      topics: DeviceTopics(enabled: [LiveService.topic]))
  }

  @Test("A device gets a token and a notification, acknowledges it, and stops")
  func wholeWay() async throws {
    let live = try LiveService()
    defer { live.service.stop() }
    let device = try PushDevice(configuration: configuration(live))
    try device.start()
    async let other = device.token(for: LiveService.topic)
    let token = try await device.token(for: LiveService.topic)
    #expect(try await other == token)

    let payload = #"{"aps":{"alert":"Hi"}}"#
    #expect(try live.push(payload, to: token) == "200")
    var notifications = device.notifications.makeAsyncIterator()
    let notification = try #require(await notifications.next())
    #expect(notification.topic == LiveService.topic)
    #expect(notification.token == token)
    #expect(notification.apnsID?.text == LiveService.notificationID)
    #expect(notification.payload == Array(payload.utf8))
    #expect(notification.priority == .immediate)
    #expect(notification.pushType == .alert)
    #expect(notification.collapseID == "score")
    #expect(!notification.isFromStorage)
    #expect(try #require(notification.sentMilliseconds) > 1_700_000_000_000)
    #expect(try #require(notification.expirationSeconds) > 1_700_000_000)

    await device.stop()
    #expect(await notifications.next() == nil)
    #expect(live.service.counts()[.delivered] == 1)
    var events: [DeviceEvent] = []
    for await event in device.events { events.append(event) }
    guard case .connected(_, isNewToken: true, _)? = events.first else {
      Issue.record("\(events)")
      return
    }
    #expect(
      events.dropFirst() == [
        .nothingStored, .disconnected(reason: "stopped", retryMilliseconds: nil),
      ])
  }

  @Test("An unknown topic has no token")
  func unknownTopic() async throws {
    let live = try LiveService()
    defer { live.service.stop() }
    let device = try PushDevice(configuration: configuration(live))
    try device.start()
    do {
      _ = try await device.token(for: "com.example.nobody")
      Issue.record("there is a token")
    } catch let error as DeviceError {
      #expect(error.code == .tokenRefused)
      #expect(error.description.contains("com.example.nobody"))
    }
    await device.stop()
  }

  @Test(
    "A retired device stops, its token requests fail with the reason, and it can be started again")
  func retired() async throws {
    let live = try LiveService()
    defer { live.service.stop() }
    let configuration = try configuration(live)
    let id = try DeviceCertificate(Certificate(pem: configuration.certificatePEM)).deviceID
    try live.data.retire(id, nowSeconds: EventLoop.wallClockMilliseconds() / 1000)
    live.service.reload()
    let device = try PushDevice(configuration: configuration)
    for _ in 0..<2 {
      try device.start()
      do {
        _ = try await device.token(for: LiveService.topic)
        Issue.record("there is a token")
      } catch let error as DeviceError {
        #expect(error.code == .refused)
        #expect(error.description.contains("is retired"))
      }
    }
    await device.stop()
    var events: [DeviceEvent] = []
    for await event in device.events { events.append(event) }
    #expect(events.count == 3)
    #expect(events.last == .disconnected(reason: "stopped", retryMilliseconds: nil))
    for event in events.dropLast() {
      guard case .disconnected(let reason, nil) = event else {
        Issue.record("\(event)")
        continue
      }
      #expect(reason.contains("is retired"))
    }
  }

  @Test("Notifications that do not fit into the stream are not acknowledged")
  func fullStream() async throws {
    let live = try LiveService()
    defer { live.service.stop() }
    var configuration = try configuration(live)
    configuration.notificationBuffer = 1
    let device = try PushDevice(configuration: configuration)
    try device.start()
    let token = try await device.token(for: LiveService.topic)
    for text in ["one", "two"] {
      #expect(
        try live.push(#"{"aps":{"alert":"\#(text)"}}"#, to: token, collapseID: text) == "200")
    }
    // This answer follows both notifications.
    _ = try await device.token(for: LiveService.topic)
    await device.stop()
    #expect(live.service.counts()[.delivered] == 1)
    var texts: [String?] = []
    for await notification in device.notifications {
      texts.append(Presentation(payload: notification.payload)?.body)
    }
    #expect(texts == ["one"])
  }

  @Test("An application that acknowledges itself decides when the service deletes a notification")
  func acknowledgesItself() async throws {
    let live = try LiveService()
    defer { live.service.stop() }
    var configuration = try configuration(live)
    configuration.acknowledgesAutomatically = false
    let device = try PushDevice(configuration: configuration)
    try device.start()
    let token = try await device.token(for: LiveService.topic)
    #expect(try live.push(#"{"aps":{}}"#, to: token) == "200")
    var notifications = device.notifications.makeAsyncIterator()
    let notification = try #require(await notifications.next())
    _ = try await device.token(for: LiveService.topic)
    #expect(live.service.counts()[.delivered, default: 0] == 0)
    device.acknowledge(notification)
    device.acknowledge(notification)
    await device.stop()
    #expect(live.service.counts()[.delivered] == 1)
  }

  @Test("A waiting token request ends with the device or with its task")
  func waiting() async throws {
    let live = try LiveService()
    var configuration = try configuration(live)
    // Nothing listens there, so nothing answers.
    configuration.port = 1
    live.service.stop()
    let device = try PushDevice(configuration: configuration)
    await #expect(throws: DeviceError.self) { try await device.token(for: LiveService.topic) }
    try device.start()
    let cancelled = Task { try await device.token(for: LiveService.topic) }
    cancelled.cancel()
    await #expect(throws: CancellationError.self) { try await cancelled.value }
    let stopped = Task { try await device.token(for: LiveService.topic) }
    await device.stop()
    do {
      _ = try await stopped.value
      Issue.record("there is a token")
    } catch let error as DeviceError {
      #expect(error.code == .stopped)
    }
    await device.stop()
    #expect(throws: DeviceError.self) { try device.start() }
  }

  @Test("A device that never started can be stopped, and fails all requests")
  func neverStarted() async throws {
    let live = try LiveService()
    defer { live.service.stop() }
    let device = try PushDevice(configuration: configuration(live))
    try device.setTopics(DeviceTopics())
    await device.stop()
    await device.stop()
    for await _ in device.notifications { Issue.record("a notification") }
    for await _ in device.events { Issue.record("an event") }
  }

  @Test("A released device is deallocated")
  func released() async throws {
    let live = try LiveService()
    defer { live.service.stop() }
    var device: PushDevice? = try PushDevice(configuration: configuration(live))
    try device?.start()
    _ = try await device?.token(for: LiveService.topic)
    let events = try #require(device?.events)
    device = nil
    var count = 0
    for await _ in events { count += 1 }
    #expect(count >= 1, "the stream ends; another test checks its contents")
  }

  @Test("An invalid configuration is rejected immediately")
  func badConfiguration() throws {
    let live = try LiveService()
    defer { live.service.stop() }
    let good = try configuration(live)
    var bad = [good, good, good, good]
    bad[0].keyPEM = good.certificatePEM
    bad[1].authorityPEM = ""
    bad[2].notificationBuffer = 0
    bad[3].topics.enabled = (0...Limits.courierFilterTopics).map { "com.example.app\($0)" }
    for configuration in bad {
      #expect(throws: DeviceError.self) { try PushDevice(configuration: configuration) }
    }
  }
}
