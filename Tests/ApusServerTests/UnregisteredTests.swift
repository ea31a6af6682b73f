import ApusLoop
import ApusModel
import ApusTesting
import Testing

@Suite("Inactive tokens")
struct UnregisteredTests {
  let service: TestService

  init() throws { service = try Shared.service }

  /// The milliseconds in `{"reason":"Unregistered","timestamp":…}`.
  private func timestamp(_ response: RawResponse) throws -> Int64 {
    expectRefusalForm(response)
    #expect(response.status == 410)
    let prefix = #"{"reason":"Unregistered","timestamp":"#
    #expect(response.bodyText.hasPrefix(prefix) && response.bodyText.hasSuffix("}"))
    return try #require(Int64(response.bodyText.dropFirst(prefix.count).dropLast()))
  }

  @Test("An app in no list is removed, with the time of that filter")
  func removed() throws {
    try withBystanders(service) {
      let device = try service.connect()
      let headers = try service.pushHeaders(
        to: device.token(), authorization: service.authorization())
      try device.enable(TestDirectory.topic)
      let provider = try service.provider()
      let before = EventLoop.wallClockMilliseconds()
      try device.filter([])
      try device.settle()
      let after = EventLoop.wallClockMilliseconds()
      for _ in 0..<2 {
        let response = try provider.exchange(headers, body: TestService.payload)
        // Within a second, because the service reads its clock once a turn.
        #expect(try (before - 1000...after).contains(timestamp(response)))
      }
    }
  }

  @Test("A reinstalled app has a new token, and the old one stays inactive")
  func superseded() throws {
    let device = try service.connect()
    let old = try device.token()
    try device.enable(TestDirectory.topic)
    try device.filter([])
    let new = try device.token()
    #expect(old != new)
    try device.filter([(2, TestDirectory.topic)])
    let provider = try service.provider()
    let authorization = try service.authorization()
    let dead = try provider.exchange(
      service.pushHeaders(to: old, authorization: authorization), body: TestService.payload)
    _ = try timestamp(dead)
    let stream = try provider.request(
      service.pushHeaders(to: new, authorization: authorization), body: TestService.payload)
    // The answer for no stored notifications came first.
    _ = try device.client.expect(0x0e)
    try device.acknowledge(try device.notification())
    #expect(try provider.response(to: stream).status == 200)
  }

  @Test("An app that lists its topic before requesting its token does not reactivate the old one")
  func listedFirst() throws {
    let device = try service.connect()
    let old = try device.token()
    try device.enable(TestDirectory.topic)
    let provider = try service.provider()
    let authorization = try service.authorization()
    let headers = service.pushHeaders(to: old, authorization: authorization)
    // Notifications accepted within the grace period are stored for the earlier app.
    try device.filter([(3, TestDirectory.topic)])
    try device.settle()
    #expect(try provider.exchange(headers, body: TestService.payload).status == 200)
    try device.filter([])
    try device.settle()
    try device.enable(TestDirectory.topic)
    _ = try timestamp(provider.exchange(headers, body: TestService.payload))
    #expect(try device.token() != old)
    try device.settle()
    #expect(device.client.received.allSatisfy { $0.command != 0x0a })
  }

  @Test("A token for a device that never requested it is inactive")
  func neverMinted() throws {
    let token = try service.directory.deviceToken(service.directory.device().id)
    let response = try service.provider().exchange(
      service.pushHeaders(to: token.hex, authorization: service.authorization()),
      body: TestService.payload)
    _ = try timestamp(response)
  }

  @Test("A paused or ignored topic is not removed", arguments: [3, 5] as [UInt8])
  func otherLists(list: UInt8) throws {
    let device = try service.connect()
    let headers = try service.pushHeaders(
      to: device.token(), authorization: service.authorization())
    try device.enable(TestDirectory.topic)
    try device.filter([(list, TestDirectory.topic)])
    try device.settle()
    #expect(try service.provider().exchange(headers, body: TestService.payload).status == 200)
  }
}
