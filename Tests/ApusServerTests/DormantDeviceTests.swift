import ApusCore
import ApusDirectory
import ApusModel
import ApusServer
import ApusTesting
import Testing

/// A device that is idle for a second becomes a table row, without a visible effect.
@Suite("Dormant devices")
struct DormantDeviceTests {
  /// A device with an app, and that app's token.
  private func quietDevice(
    _ service: TestService, _ device: TestDevice? = nil
  ) throws -> (ConnectedDevice, String) {
    let device = try service.connect(device)
    let token = try device.token()
    try device.enable(TestDirectory.topic)
    return (device, token)
  }

  private func expectPush(
    _ provider: QuietPusher, _ device: ConnectedDevice, _ token: String, _ alert: String
  ) throws {
    #expect(try provider.push(token, alert) == 200)
    let notification = try device.notification()
    #expect(notification[3] == Array(#"{"aps":{"alert":"\#(alert)"}}"#.utf8))
    try device.acknowledge(notification)
    try device.settle()
  }

  @Test("A push wakes a dormant device, repeatedly", arguments: [true, false])
  func pushes(isCompact: Bool) throws {
    let service = try TestService(nil, .init { $0.allowsCompactTLS = isCompact })
    defer { service.stop() }
    let (device, token) = try quietDevice(service)
    let provider = try QuietPusher(service)
    for round in 1...3 as ClosedRange<UInt64> {
      try service.awaitDormant()
      #expect(service.service.dormancy().fallen == round)
      #expect(service.service.connectionCount() == 2)
      try expectPush(provider, device, token, "round \(round)")
      #expect(service.service.counts()[.delivered] == round)
      #expect(service.service.counts()[.storedDeviceOffline] == 0)
      #expect(service.service.dormancy().woken == round)
    }
  }

  @Test("Simultaneous pushes arrive in order")
  func order() throws {
    let service = try TestService()
    defer { service.stop() }
    let (device, token) = try quietDevice(service)
    let provider = try QuietPusher(service)
    try service.awaitDormant()
    let headers = provider.headers(token)
    #expect(try provider.client.exchange(headers, body: TestService.payload).status == 200)
    _ = try device.notification()
    let count = 20
    let streams = try (0..<count).map { index in
      try provider.client.request(headers, body: Array(#"{"aps":{"alert":"\#(index)"}}"#.utf8))
    }
    for index in 0..<count {
      #expect(try device.notification()[3] == Array(#"{"aps":{"alert":"\#(index)"}}"#.utf8))
    }
    for stream in streams { #expect(try provider.client.response(to: stream).status == 200) }
  }

  @Test("Its own frames wake a device, even byte by byte")
  func frames() throws {
    let service = try TestService()
    defer { service.stop() }
    let (device, token) = try quietDevice(service)
    try service.awaitDormant()
    try device.settle()
    #expect(service.service.dormancy().woken == 1)
    try service.awaitDormant()
    // A keep-alive, and its answer.
    try device.client.send(RawCourierFrame(0x0c))
    _ = try device.client.expect(0x0d)
    // Another app, with another token.
    try service.awaitDormant()
    #expect(try device.token() == token)
    // Half a frame keeps it awake: the second device, though connected later, becomes dormant first.
    let fallen = service.service.dormancy().fallen
    try device.client.tls.send([0x0f, 0, 0])
    let later = try quietDevice(service).0
    try service.awaitDormant()
    #expect(service.service.dormancy().fallen == fallen + 1)
    try device.client.tls.send([0, 5, 1, 0, 2, 0, 0])
    _ = try device.client.expect(0x10)
    try service.awaitDormant(2)
    try later.settle()
  }

  @Test("A dormant device keeps many topics unchanged")
  func topics() throws {
    let service = try TestService()
    defer { service.stop() }
    let (device, token) = try quietDevice(service)
    let suffixes = [".voip", ".complication", ".pushkit.fileprovider", ".location-query"]
    try device.filter(
      [(2, TestDirectory.topic)] + suffixes.map { (3, TestDirectory.topic + $0) })
    try device.settle()
    let provider = try QuietPusher(service)
    for round in 1...2 {
      try service.awaitDormant()
      try expectPush(provider, device, token, "round \(round)")
    }
  }

  @Test("A newer connection replaces a dormant one, which gets a goodbye")
  func takeOver() throws {
    let service = try TestService()
    defer { service.stop() }
    let (old, token) = try quietDevice(service)
    try service.awaitDormant()
    let (new, _) = try quietDevice(service, old.device)
    let end = try old.client.end()
    #expect(end.frames.map(\.command) == [0x80])
    #expect(end.end == .closeNotify)
    try service.awaitDormant()
    try expectPush(QuietPusher(service), new, token, "to the new one")
  }

  @Test("A dormant connection ends when its device closes or loses it", arguments: [true, false])
  func ends(resets: Bool) throws {
    let service = try TestService()
    defer { service.stop() }
    let (device, token) = try quietDevice(service)
    try service.awaitDormant()
    if resets { device.client.tls.reset() } else { device.client.tls.close() }
    let deadline = Deadline()
    while service.service.connectionCount() > 0 {
      try #require(deadline.remainingMilliseconds > 0)
    }
    #expect(service.service.dormancy().count == 0)
    #expect(try QuietPusher(service).push(token) == 200)
    #expect(service.service.counts()[.storedDeviceOffline] == 1)
  }

  @Test("Retiring a device wakes none of the others")
  func retirement() throws {
    let service = try TestService()
    defer { service.stop() }
    let (device, token) = try quietDevice(service)
    let others = try (0..<3).map { _ in try quietDevice(service).0 }
    try service.awaitDormant(4)
    try service.directory.data.retire(device.device.id, nowSeconds: TestDirectory.nowSeconds)
    service.service.reload()
    #expect(try device.client.end().frames.map(\.command) == [0x80])
    #expect(try QuietPusher(service).push(token) == 410)
    #expect(service.service.dormancy().woken == 1)
    for other in others { try other.settle() }
  }

  @Test("Revoking a certificate wakes and disconnects only its device")
  func revocation() throws {
    let service = try TestService()
    defer { service.stop() }
    let (revoked, _) = try quietDevice(service)
    let (other, token) = try quietDevice(service)
    try service.awaitDormant(2)
    try service.directory.revoke(revoked.device.identity)
    service.service.reload()
    #expect(try revoked.client.end().frames.map(\.command) == [0x80])
    #expect(service.service.dormancy() == .init(count: 1, fallen: 2, woken: 1))
    try expectPush(QuietPusher(service), other, token, "to the other")
  }

  @Test("During a rotation a device is advised with its next frame")
  func rotation() throws {
    let service = try TestService()
    defer { service.stop() }
    let (device, _) = try quietDevice(service)
    try service.awaitDormant()
    _ = try service.directory.data.rotateAuthority(
      .devices, nowSeconds: TestDirectory.nowSeconds - 60)
    service.service.reload()
    #expect(service.service.dormancy().count == 1)
    try device.settle()
    #expect(try device.client.expect(0x85)[0x44]?.count == 4)
  }

  @Test("When the service shuts down, all dormant devices get a goodbye")
  func drain() throws {
    let service = try TestService()
    let devices = try (0..<7).map { _ in try quietDevice(service).0 }
    try service.awaitDormant(7)
    service.stop()
    for device in devices {
      let end = try device.client.end()
      #expect(end.frames.map(\.command) == [0x80])
      #expect(end.end == .closeNotify)
    }
  }
}
