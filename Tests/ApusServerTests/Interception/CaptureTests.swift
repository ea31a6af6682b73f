import ApusCore
import ApusModel
import ApusServer
import ApusTesting
import Testing

@Suite("An interceptor sees each request with its answer")
struct CaptureTests {
  let stage: Stage

  init() throws { stage = try Stage.strict }

  @Test("An accepted push is reported with all its fields", arguments: Environment.allCases)
  func accepted(environment: Environment) throws {
    let token = try stage.token(environment)
    let provider = try stage.service.provider(environment)
    let headers =
      stage.headers(token).without("authorization") + [
        RawHeader("apns-push-type", "alert"), RawHeader("apns-priority", "5"),
        RawHeader("user-agent", "sender/1"), RawHeader("apns-expiration", "2000000000"),
        RawHeader("apns-collapse-id", "score"),
        RawHeader("authorization", stage.authorization), RawHeader("x-extra", "é"),
      ]
    let answer = try provider.exchange(headers, body: TestService.payload)
    #expect(answer.status == 200)
    let exchange = try stage.interceptor.exchange(token)
    let request = exchange.request
    #expect(request.headers.map(\.name) == headers.map(\.name))
    #expect(request.headers.map(\.value) == headers.map(\.text))
    #expect(request.method == "POST" && request.path == "/3/device/\(token)")
    #expect(request.interface == .http2 && request.environment == environment)
    #expect(request.topic == TestDirectory.topic && request.pushType == "alert")
    #expect(request.priority == "5" && request.collapseID == "score")
    #expect(request.expirationSeconds == 2_000_000_000)
    #expect(request.payload == TestService.payload)
    let key = stage.service.directory.key
    #expect(request.credential == "key \(key.id.text) of team \(key.team.text)")
    let issued = try #require(request.tokenIssuedAtSeconds)
    #expect(abs(issued - TestDirectory.nowSeconds) < 600)
    #expect(exchange.status == 200 && exchange.isAccepted && exchange.reason == nil)
    #expect(exchange.apnsID == answer["apns-id"])
    #expect(exchange.uniqueID == answer["apns-unique-id"])
    #expect(exchange.notificationID?.text == exchange.apnsID)
    #expect(exchange.notes.isEmpty && exchange.fault == nil)
  }

  @Test("A rejected broadcast is reported with the reason in a sentence")
  func broadcast() throws {
    let provider = try stage.service.provider()
    let headers = stage.headers(String(repeating: "0", count: 64))
      .setting(":path", "/4/broadcasts/apps/\(TestDirectory.topic)")
    expectRefusal(
      try provider.exchange(headers, body: TestService.payload), "400 FeatureNotEnabled")
    let exchange = try stage.interceptor.exchange("")
    #expect(exchange.status == 400 && exchange.reason == "FeatureNotEnabled")
    #expect(exchange.explanation?.hasPrefix("broadcasts are off for the app") == true)
  }

  @Test("A rejected push is reported with the reason in a sentence")
  func refused() throws {
    let token = try stage.token()
    let provider = try stage.service.provider()
    let headers = stage.headers(token).without("apns-topic").setting(
      "apns-id", "a1b2c3d4-e5f6-0718-293a-4b5c6d7e8f90")
    let answer = try provider.exchange(headers, body: TestService.payload)
    expectRefusal(answer, 400, "MissingTopic")
    let exchange = try stage.interceptor.exchange(token)
    #expect(exchange.status == 400 && exchange.reason == "MissingTopic")
    #expect(!exchange.isAccepted && exchange.notificationID == nil)
    #expect(exchange.explanation == "the request names no topic: send apns-topic")
    #expect(exchange.apnsID == "a1b2c3d4-e5f6-0718-293a-4b5c6d7e8f90")
    #expect(exchange.request.topic == nil)
  }

  @Test("A push to an inactive token is reported with its time")
  func unregistered() throws {
    let device = try stage.service.connect()
    let token = try device.token()
    try device.enable(TestDirectory.topic)
    try device.filter([])
    try device.settle()
    let provider = try stage.service.provider()
    var answer = try provider.exchange(stage.headers(token), body: TestService.payload)
    var count = 1
    while answer.status == 200, count < 100 {
      answer = try provider.exchange(stage.headers(token), body: TestService.payload)
      count += 1
    }
    #expect(answer.status == 410)
    let exchange = try #require(stage.interceptor.exchanges(token, count: count).last)
    #expect(exchange.status == 410 && exchange.reason == "Unregistered")
    let time = try #require(exchange.timestampMilliseconds)
    #expect(answer.bodyText.contains("\"timestamp\":\(time)"))
    #expect(exchange.explanation?.contains("removed from the device") == true)
  }

  @Test("Requests with a certificate have its name and its topic")
  func certificate() throws {
    let token = try stage.token()
    let provider = try stage.service.provider(
      identity: stage.service.directory.providerIdentity())
    let headers = stage.headers(token).without("apns-topic").without("authorization")
    #expect(try provider.exchange(headers, body: TestService.payload).status == 200)
    let request = try stage.interceptor.exchange(token).request
    #expect(request.credential == "certificate for \(TestDirectory.topic)")
    #expect(request.topic == TestDirectory.topic)
    #expect(request.tokenIssuedAtSeconds == nil)
  }

  @Test("Connections are numbered, and their ends are reported")
  func connections() throws {
    let token = try stage.token()
    var numbers: Set<UInt64> = []
    for count in 1...2 {
      let provider = try stage.service.provider()
      for _ in 0..<2 {
        _ = try provider.exchange(stage.headers(token), body: TestService.payload)
      }
      let exchanges = try stage.interceptor.exchanges(token, count: 2 * count)
      let connections = Set(exchanges.suffix(2).map(\.request.connection))
      #expect(connections.count == 1)
      let connection = try #require(connections.first)
      #expect(connection.peer.hasPrefix("127.0.0.1:"))
      #expect(stage.interceptor.opened(connection.number) == connection)
      numbers.insert(connection.number)
      provider.tls.close()
      #expect(try stage.interceptor.closed(connection.number) == connection)
    }
    #expect(numbers.count == 2)
  }

  @Test("Frames of the binary interface are reported, including malformed ones")
  func binary() throws {
    let token = try stage.token()
    let gateway = try stage.service.gateway()
    try gateway.send(GatewayFrame.framed(7, hex(token), priority: 5))
    let accepted = try stage.interceptor.exchange(token)
    #expect(accepted.status == 0 && accepted.isAccepted && accepted.notificationID != nil)
    let request = accepted.request
    #expect(request.interface == .binary && request.command == 2 && request.identifier == 7)
    #expect(request.topic == TestDirectory.topic && request.priority == "5")
    #expect(request.expirationSeconds == 0x7fff_ffff && request.payload == GatewayFrame.payload)
    #expect(request.credential == "certificate for \(TestDirectory.topic)")
    let foreign = String(repeating: "5a", count: 32)
    try gateway.send(GatewayFrame.enhanced(8, hex(foreign)))
    try expectEnd(gateway, GatewayFrame.packet(8, 8))
    let refused = try stage.interceptor.exchange(foreign)
    #expect(refused.status == 8 && refused.reason == "Invalid token")
    #expect(refused.explanation?.contains("this service did not issue") == true)
    #expect(refused.request.connection == request.connection)
    #expect(try stage.interceptor.closed(request.connection.number) != nil)
  }
}
