import ApusModel
import ApusServer
import ApusTesting
import Glibc
import Testing

@Suite("Shutting down")
struct StopTests {
  /// Runs `body` while the service shuts down on its own thread; returns when both have ended.
  private func whileStopping(_ service: TestService, _ body: () throws -> Void) throws {
    let thread = StopThread(service)
    defer { thread.join() }
    // The listeners for devices close first.
    let deadline = Deadline()
    while deadline.remainingMilliseconds > 0 {
      guard let client = try? RawTCPClient(service.address(.courier)) else { break }
      client.close()
      sched_yield()
    }
    try body()
  }

  @Test("A provider gets every answer, then GOAWAY with Shutdown and its last stream, then the end")
  func provider() throws {
    let service = try TestService()
    let idle = try service.provider()
    try idle.ping()
    let device = try service.connect()
    let token = try device.token()
    try device.enable(TestDirectory.topic)
    let busy = try service.provider()
    let headers = try service.pushHeaders(to: token, authorization: service.authorization())
      .setting("apns-expiration", "0")
    #expect(try busy.exchange(headers, body: TestService.payload).status == 200)
    device.client.tls.reset()
    // Half a request, which the service has received.
    let stream = busy.takeStream()
    try busy.send(.headers(stream, headers))
    try busy.ping()
    try whileStopping(service) {
      let shutdown = #"{"reason":"Shutdown"}"#
      let idleEnd = try idle.end()
      let announcement = RawGoAway(lastStream: 0x7fff_ffff, code: 0, debugData: "")
      #expect(
        idleEnd.goAways == [
          announcement, RawGoAway(lastStream: 0, code: 0, debugData: shutdown),
        ])
      #expect(idleEnd.end == .closeNotify)
      try busy.send(.data(stream, TestService.payload))
      #expect(try busy.response(to: stream).status == 200)
      let busyEnd = try busy.end()
      #expect(
        busyEnd.goAways == [
          announcement, RawGoAway(lastStream: stream, code: 0, debugData: shutdown),
        ])
      #expect(busyEnd.end == .closeNotify)
    }
  }

  @Test("A provider that has everything, and keeps its connection open, does not delay the end")
  func openConnection() throws {
    let service = try TestService()
    let provider = try service.provider()
    try provider.ping()
    var waitedMilliseconds: Int64 = 0
    service.stop { milliseconds in
      usleep(UInt32(milliseconds) * 1000)
      waitedMilliseconds += milliseconds
      return false
    }
    // A connection is kept for five seconds after its end.
    #expect(waitedMilliseconds < 2500)
    let end = try provider.end()
    #expect(end.goAways.last?.lastStream == 0)
    #expect(end.end == .closeNotify)
  }

  @Test("Devices get a goodbye if their dialect has one, and all are disconnected")
  func devices() throws {
    let service = try TestService(nil, TestService.Options { $0.workers = 1 })
    // The first one: once a later one is answered, its handshake is complete too.
    let silent = try service.courier(service.directory.device())
    let own = try (0..<3).map { _ in try service.connect() }
    for device in own { try device.enable(TestDirectory.topic) }
    let waiting = try service.connect()
    let device = try service.directory.device()
    let old = try ConnectedDevice(
      service.courier(device, protocols: [TestService.oldCourierProtocol]), device)
    try whileStopping(service) {
      for client in own.map(\.client) + [waiting.client, silent] {
        let end = try client.end()
        #expect(end.frames.map(\.command) == [0x80])
        #expect(end.frames.first?[0x40]?.isEmpty == false)
        #expect(end.end == .closeNotify)
      }
      let end = try old.client.end()
      #expect(end.frames.isEmpty)
      #expect(end.end == .closeNotify)
    }
  }

  @Test("Each device is told when to reconnect, no two at the same time")
  func reconnection() throws {
    let service = try TestService()
    let devices = try (0..<20).map { _ in try service.connect() }
    for device in devices { try device.enable(TestDirectory.topic) }
    try whileStopping(service) {
      let delays = try devices.map { device in
        let goodbye = try #require(device.client.end().frames.last)
        let bytes = try #require(goodbye[0x41])
        #expect(bytes.count == 4)
        return bytes.reduce(0) { $0 << 8 | Int($1) }
      }
      #expect(Set(delays).count > 15, "\(delays)")
      #expect(delays.allSatisfy { 0..<500 ~= $0 }, "\(delays)")
    }
  }

  @Test("Devices may acknowledge what they were sent, and providers are served until then")
  func acknowledgement() throws {
    let directory = try TestDirectory()
    let durable = TestService.Options { $0.isEphemeral = false }
    let first = try TestService(directory, durable)
    let device = try first.connect()
    let token = try device.token()
    try device.enable(TestDirectory.topic)
    let headers = try first.pushHeaders(to: token, authorization: first.authorization())
      .setting("apns-expiration", "\(TestDirectory.nowSeconds + 1000)")
    let early = TestService.payload
    let late = Array(#"{"aps":{"alert":"late"}}"#.utf8)
    #expect(try first.provider().exchange(headers, body: early).status == 200)
    let notification = try device.notification()
    #expect(notification[3] == early)
    try whileStopping(first) {
      #expect(try first.provider().exchange(headers, body: late).status == 200)
      try device.acknowledge(notification)
      let end = try device.client.end()
      #expect(end.frames.map(\.command) == [0x80])
    }
    let second = try TestService(directory, durable)
    defer { second.stop() }
    let again = try second.connect(device.device)
    try again.filter([(2, TestDirectory.topic)])
    let next = try again.notification()
    #expect(next[3] == late)
    try again.acknowledge(next)
    try again.settle()
    #expect(again.client.received.filter { $0.command == 0x0a }.count == 1)
    let counts = second.service.counts()
    #expect(counts[.delivered] == 1 && counts[.deliveredFromStorage] == 1)
    #expect(counts[.discardedNotStored] ?? 0 == 0)
  }

  /// Waits until providers are told as well.
  private func awaitProviderDrain(_ service: TestService) throws {
    try waitUntil("the provider's listeners to close") {
      guard let client = try? RawTCPClient(service.address(.provider)) else { return true }
      client.close()
      return false
    }
  }

  @Test("The announcement is in one record with the answer to the last open request")
  func announcement() throws {
    let service = try TestService()
    let provider = try service.provider()
    let headers = try service.pushHeaders(
      to: service.directory.deviceToken(DeviceID(1)).hex, authorization: service.authorization())
    let stream = provider.takeStream()
    try provider.send(.headers(stream, headers))
    try provider.ping()
    try whileStopping(service) {
      try awaitProviderDrain(service)
      #expect(provider.received.compactMap(\.goAway).isEmpty)
      try provider.send(.data(stream, TestService.payload))
      #expect(try provider.response(to: stream).status == 410)
      #expect(try provider.end().end == .closeNotify)
    }
    // RFC 9113, section 6.8: GOAWAY, 8 bytes, on stream 0, with stream id 2^31-1 and NO_ERROR.
    let goAway = hex("000008 07 00 00000000 7fffffff 00000000")
    let reason = Array(#"{"reason":"Unregistered""#.utf8)
    let record = provider.tls.records.map(\.plaintext).first { $0.contains(goAway) }
    #expect(record?.contains(reason) == true)
  }

  @Test("A client with one request at a time gets all its answers during a shutdown")
  func oneAtATime() throws {
    let service = try TestService()
    let token = try Shared.absentToken(of: service)
    let provider = try service.provider()
    let headers = try service.pushHeaders(to: token, authorization: service.authorization())
      .setting("apns-expiration", "0")
    let thread = StopThread(service)
    defer { thread.join() }
    var answers: UInt32 = 0
    while provider.received.compactMap(\.goAway).isEmpty {
      #expect(try provider.exchange(headers, body: TestService.payload).status == 200)
      answers += 1
    }
    // A request that crosses the announcement is answered as well.
    #expect(try provider.exchange(headers, body: TestService.payload).status == 200)
    #expect(try provider.end().goAways.last?.lastStream == 2 * answers + 1)
  }

  @Test("A provider in its handshake completes it during a shutdown, and gets its answer")
  func handshaking() throws {
    let service = try TestService()
    let headers = try service.pushHeaders(to: "00", authorization: service.authorization())
    let address = service.address(.provider)
    let tcp = try RawTCPClient(address)
    let deadline = Deadline()
    while service.service.connectionCount() == 0, deadline.remainingMilliseconds > 0 {
      sched_yield()
    }
    let thread = StopThread(service)
    defer { thread.join() }
    // The listeners for providers close last.
    while deadline.remainingMilliseconds > 0, let other = try? RawTCPClient(address) {
      other.close()
      sched_yield()
    }
    let provider = RawHTTP2Client(try RawTLSClient(tcp, service.providerContext()))
    try provider.begin()
    #expect(try provider.exchange(headers, body: TestService.payload).status == 400)
    #expect(try provider.end().end == .closeNotify)
  }

  @Test("An immediate stop waits for nobody")
  func cutShort() throws {
    let service = try TestService()
    let provider = try service.provider()
    let headers = try service.pushHeaders(
      to: Shared.absentToken(of: service), authorization: service.authorization())
    // Half a request, which the service has received and would wait for.
    try provider.send(.headers(provider.takeStream(), headers))
    try provider.ping()
    var waits = 0
    service.stop { _ in
      waits += 1
      return true
    }
    #expect(waits == 1)
  }

  @Test("A device that sends its connect message during a shutdown is disconnected like the others")
  func arriving() throws {
    let service = try TestService()
    let devices = try (0..<20).map { _ in
      let client = try service.courier(service.directory.device())
      try client.tls.awaitTicket()
      return client
    }
    try whileStopping(service) {
      for client in devices { try client.send(ConnectedDevice.connectMessage()) }
      for client in devices {
        let end = try client.end()
        #expect(end.frames.last?.command == 0x80)
        #expect(end.end == .closeNotify)
      }
    }
  }

  @Test("Undelivered notifications arrive after the restart")
  func restart() throws {
    let directory = try TestDirectory()
    let durable = TestService.Options { $0.isEphemeral = false }
    let device = try directory.device()
    let first = try TestService(directory, durable)
    let (token, otherToken): (String, String)
    do {
      let connection = try first.connect(device)
      (token, otherToken) = try (connection.token(), connection.token(TestDirectory.otherTopic))
      try connection.enable(TestDirectory.topic, TestDirectory.otherTopic)
      connection.client.tls.reset()
    }
    let id = "a1b2c3d4-e5f6-0718-293a-4b5c6d7e8f90"
    let expiration = TestDirectory.nowSeconds + 1000
    let provider = try first.provider()
    let authorization = try first.authorization()
    let kept = first.pushHeaders(to: token, authorization: authorization)
      .setting("apns-id", id).setting("apns-expiration", "\(expiration)")
    #expect(try provider.exchange(kept, body: TestService.payload).status == 200)
    let lost = first.pushHeaders(
      to: otherToken, topic: TestDirectory.otherTopic, authorization: authorization
    ).setting("apns-expiration", "0")
    #expect(try provider.exchange(lost, body: TestService.payload).status == 200)
    provider.tls.close()
    first.stop()

    let second = try TestService(directory, durable)
    let connection = try second.connect(device)
    #expect(try connection.token() == token)
    try connection.filter([(2, TestDirectory.topic), (2, TestDirectory.otherTopic)])
    let frame = try connection.notification()
    #expect(frame[3] == TestService.payload)
    #expect(frame[5] == bigEndian(UInt32(expiration)))
    #expect(frame[7] == [3])
    #expect(frame[0x40] == hex("a1b2c3d4e5f60718293a4b5c6d7e8f90"))
    try connection.settle()
    connection.client.tls.reset()
    second.stop()

    // Still unacknowledged, so the third service sends it again with the same id; after the acknowledgement, the fourth
    // does not.
    let third = try TestService(directory, durable)
    let again = try third.connect(device)
    try again.filter([(2, TestDirectory.topic), (2, TestDirectory.otherTopic)])
    let same = try again.notification()
    #expect(same.bytes == frame.bytes)
    try again.acknowledge(same)
    try again.settle()
    again.client.tls.reset()
    third.stop()

    let fourth = try TestService(directory, durable)
    let last = try fourth.connect(device)
    try last.enable(TestDirectory.topic, TestDirectory.otherTopic)
    last.client.tls.reset()
    fourth.stop()
  }

  @Test("A removed app is still removed after a restart, and its token inactive")
  func unregistered() throws {
    let directory = try TestDirectory()
    let durable = TestService.Options { $0.isEphemeral = false }
    let first = try TestService(directory, durable)
    let device = try first.connect()
    let token = try device.token()
    try device.enable(TestDirectory.topic)
    try device.filter([])
    try device.settle()
    device.client.tls.reset()
    let headers = try first.pushHeaders(to: token, authorization: first.authorization())
    let provider = try first.provider()
    let dead = try provider.exchange(headers, body: TestService.payload)
    #expect(dead.status == 410)
    provider.tls.close()
    first.stop()
    let second = try TestService(directory, durable)
    defer { second.stop() }
    let still = try second.provider().exchange(headers, body: TestService.payload)
    #expect(still.status == 410)
    // With the same time.
    #expect(still.bodyText == dead.bodyText)
  }
}

/// Stops a service on its own thread.
final class StopThread {
  private var thread = pthread_t()

  init(_ service: TestService) {
    let argument = Unmanaged.passRetained(service)
    let code = pthread_create(
      &thread, nil,
      { argument in
        guard let argument else { return nil }
        Unmanaged<TestService>.fromOpaque(argument).takeRetainedValue().stop()
        return nil
      }, argument.toOpaque())
    precondition(code == 0, "no thread")
  }

  func join() { pthread_join(thread, nil) }
}
