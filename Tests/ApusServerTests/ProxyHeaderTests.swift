import ApusAdmin
import ApusCore
import ApusLog
import ApusLoop
import ApusModel
import ApusTLS
import ApusTesting
import Testing

@testable import ApusServer

/// Listeners whose clients come through a proxy. Headers are by hand, from proxy-protocol.txt.
@Suite("Clients behind a proxy")
struct ProxyHeaderTests {
  private let proxy: SocketAddress
  private let proxies: [AddressRange]

  init() throws {
    proxy = try SocketAddress("10.0.0.1:4000")
    proxies = [try #require(AddressRange("10.0.0.0/24"))]
  }

  /// `PROXY TCP4`, from that client.
  private func header(_ client: String, port: Int = 56324) -> [UInt8] {
    Array("PROXY TCP4 \(client) 198.51.100.9 \(port) 443\r\n".utf8)
  }

  private func bench(capacity: Int = .max) throws -> SteppedBench {
    try SteppedBench(.provider, proxies: proxies, capacity: capacity)
  }

  private func peers(_ bench: SteppedBench) -> [String] {
    bench.worker.connections.awakeConnections.map(\.peer.description)
  }

  private func ended(_ bench: SteppedBench) -> UInt64 { bench.worker.context.ended[.proxy] }

  @Test("The client's address counts from the header on, however it arrives, with TLS behind it")
  func split() throws {
    let bench = try bench()
    let bytes = try header("192.0.2.7") + bench.clientHello()
    let end = header("192.0.2.7").count
    for cut in [1, 5, end - 1, end, end + 1, bytes.count] {
      let descriptor = bench.connect(from: proxy)
      bench.send(Array(bytes[..<cut]), on: descriptor)
      let isComplete = cut >= end
      #expect(peers(bench) == [isComplete ? "192.0.2.7:56324" : "10.0.0.1:4000"], "\(cut) bytes")
      if cut < bytes.count {
        #expect(!bench.isAnswered(descriptor), "\(cut) bytes")
        bench.send(Array(bytes[cut...]), on: descriptor)
      }
      #expect(bench.isAnswered(descriptor) && !bench.isClosed(descriptor), "\(cut) bytes")
      #expect(peers(bench) == ["192.0.2.7:56324"])
      bench.worker.connections.abortAll()
    }
    #expect(ended(bench) == 0)
  }

  @Test("An IPv4 client that a proxy names in IPv6 is an IPv4 client")
  func mapped() throws {
    let bench = try bench()
    let descriptor = bench.connect(from: proxy)
    bench.send(Array("PROXY TCP6 ::ffff:192.0.2.7 ::1 1 2\r\n".utf8), on: descriptor)
    #expect(peers(bench) == ["192.0.2.7:1"])
  }

  @Test("A proxy that speaks for itself keeps its own address")
  func local() throws {
    let bench = try bench()
    let descriptor = bench.connect(from: proxy)
    try bench.send(Array("PROXY UNKNOWN\r\n".utf8) + bench.clientHello(), on: descriptor)
    #expect(bench.isAnswered(descriptor))
    #expect(peers(bench) == ["10.0.0.1:4000"])
    #expect(bench.worker.context.gate.figures.untrusted == 1)
    bench.worker.connections.abortAll()
    #expect(bench.worker.context.gate.figures.untrusted == 0)
  }

  @Test("A connection without a header ends at its first byte, one from elsewhere at once")
  func refused() throws {
    let bench = try bench()
    let direct = bench.connect(from: proxy)
    try bench.send([bench.clientHello()[0]], on: direct)
    #expect(bench.isClosed(direct) && !bench.isAnswered(direct))
    #expect(ended(bench) == 1)
    let connections = bench.worker.connections.count
    #expect(connections == 0 && bench.worker.context.gate.figures.untrusted == 0)
    // Its descriptor is none of the simulated network's: the service closes it before it adopts it.
    _ = bench.connect(from: try SocketAddress("10.0.1.1:4000"))
    #expect(ended(bench) == 2)
    #expect(bench.worker.connections.count == 0)
    #expect(bench.worker.context.gate.figures.untrusted == 0)
  }

  @Test("Header and handshake together may take 10 seconds")
  func slow() throws {
    let bench = try bench()
    let descriptor = bench.connect(from: proxy)
    for (second, byte) in header("192.0.2.7").prefix(10).enumerated() {
      bench.advance(toMilliseconds: UInt64(second) * 1000)
      bench.send([byte], on: descriptor)
    }
    let late = bench.connect(from: proxy)
    bench.send(header("192.0.2.8"), on: late)
    bench.advance(toMilliseconds: 9_999)
    #expect(!bench.isClosed(descriptor))
    bench.advance(toMilliseconds: 10_000)
    #expect(bench.isClosed(descriptor) && !bench.isClosed(late))
    bench.advance(toMilliseconds: 19_000)
    #expect(bench.isClosed(late), "the header gave it no more time")
    #expect(bench.worker.context.gate.figures.untrusted == 0)
  }

  /// Of 100 places, 80 are for one address.
  @Test("Each client has the share of an address, and the proxy is none")
  func shares() throws {
    let bench = try bench(capacity: 100)
    let greedy = (0..<90).map { _ in
      let descriptor = bench.connect(from: proxy)
      bench.send(header("192.0.2.7"), on: descriptor)
      return descriptor
    }
    #expect(greedy.filter(bench.isClosed) == Array(greedy[..<10]), "the oldest made room")
    #expect(bench.worker.context.gate.figures.evicted == 10)
    let other = bench.connect(from: proxy)
    bench.send(header("192.0.2.8"), on: other)
    #expect(!bench.isClosed(other) && greedy.filter(bench.isClosed).count == 10)
    #expect(peers(bench).count { $0.hasPrefix("192.0.2.8:") } == 1)
    #expect(bench.worker.context.gate.figures.untrusted == 81)
  }

  @Test("Connections without a header yet make room for each other, oldest first")
  func waiting() throws {
    let bench = try bench(capacity: 65)
    let silent = (0..<70).map { _ in bench.connect(from: proxy) }
    #expect(silent.filter(bench.isClosed) == Array(silent[..<6]))
    #expect(bench.worker.connections.count == 64)
    bench.worker.connections.abortAll()
    #expect(bench.worker.context.gate.figures.untrusted == 0)
  }

  @Test("A proxy's own connections take the share of its address, and none ends itself for room")
  func ownShare() throws {
    let bench = try bench(capacity: 100)
    let own = (0..<90).map { _ in
      let descriptor = bench.connect(from: proxy)
      bench.send(Array("PROXY UNKNOWN\r\n".utf8), on: descriptor)
      return descriptor
    }
    #expect(own.count { !bench.isClosed($0) } == 80)
    #expect(bench.worker.context.gate.figures.untrusted == 80)
    bench.worker.connections.abortAll()
    #expect(bench.worker.context.gate.figures.untrusted == 0)
  }

  // MARK: A whole service

  /// PROXY over TCP and IPv6, from [2001:db8::7]:56324.
  private static let binaryHeader: [UInt8] =
    [0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d, 0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a, 0x21, 0x21, 0, 36]
    + [0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]
    + [0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9] + [0xdc, 0x04, 0x01, 0xbb]

  @Test("Push and delivery work through a proxy; log, audit log and device page name the clients")
  func service() throws {
    let bench = try MonitoredService { options in
      options.proxies = [AddressRange("127.0.0.0/8")].compactMap(\.self)
      options.logLevel = .debug
    }
    let service = bench.service
    defer { service.stop() }
    let device = try service.directory.device()
    let courier = RawCourierClient(
      try service.tls(
        .courier, protocols: [TestService.courierProtocol], identity: device.identity,
        proxyHeader: Self.binaryHeader))
    let connected = try ConnectedDevice(courier, device)
    let token = try connected.token()
    try connected.enable(TestDirectory.topic)
    let provider = RawHTTP2Client(
      try service.tls(.provider, protocols: ["h2"], proxyHeader: header("192.0.2.7")))
    try provider.begin()
    let headers = try service.pushHeaders(to: token, authorization: service.authorization())
    let stream = try provider.request(headers, body: TestService.payload)
    let notification = try connected.notification()
    #expect(notification[3] == TestService.payload)
    try connected.acknowledge(notification)
    #expect(try provider.response(to: stream).status == 200)

    let page = try bench.get("v1", "devices", device.id.text)
    #expect(page.contains(#""[2001:db8::7]:56324""#), "\(page)")
    // A refusal comes after the connection has moved to its worker.
    let refused = headers.setting("authorization", "bearer x")
    #expect(try provider.exchange(refused, body: TestService.payload).status == 403)
    #expect(try bench.get("v1", "refusals").contains("192.0.2.7:56324"))
    let lines = bench.lines.all("request rejected")
    #expect(lines.count == 1 && lines[0].contains("peer=192.0.2.7:56324"), "\(lines)")
    // Nothing else: no address of the proxy, which is this machine.
    #expect(bench.lines.all("device connected").allSatisfy { !$0.contains("127.0.0.1") })
  }

  @Test("Every listener takes the header, in both environments")
  func listeners() throws {
    let service = try TestService(
      nil, .init { $0.proxies = [AddressRange("127.0.0.1")].compactMap(\.self) })
    defer { service.stop() }
    let device = try service.directory.device().identity
    let provider = try service.directory.providerIdentity()
    let names: [ListenerKind: String] = [.provider: "h2", .courier: TestService.courierProtocol]
    for kind in [ListenerKind.provider, .courier, .gateway, .feedback] {
      for environment in Environment.allCases {
        for header in [Self.binaryHeader, header("192.0.2.7")] {
          let client = try service.tls(
            kind, environment, protocols: [names[kind]].compactMap(\.self),
            identity: kind == .courier ? device : provider, proxyHeader: header)
          #expect(client.version == .v1_3)
          client.reset()
        }
      }
    }
  }

  @Test("A dormant device keeps its client's address, and has it again when it wakes")
  func dormant() throws {
    let bench = try MonitoredService { options in
      options.proxies = [AddressRange("127.0.0.1")].compactMap(\.self)
    }
    let service = bench.service
    defer { service.stop() }
    let device = try service.directory.device()
    let courier = RawCourierClient(
      try service.tls(
        .courier, protocols: [TestService.courierProtocol], identity: device.identity,
        proxyHeader: Self.binaryHeader))
    let connected = try ConnectedDevice(courier, device)
    try connected.enable(TestDirectory.topic)
    try service.awaitDormant()
    let address = #""[2001:db8::7]:56324""#
    #expect(try bench.get("v1", "devices", device.id.text).contains(address))
    try connected.settle()
    #expect(service.service.dormancy().count == 0)
    #expect(try bench.get("v1", "devices", device.id.text).contains(address))
  }

  @Test("What a listener for proxies refuses is in log and metrics")
  func refusals() throws {
    let bench = try MonitoredService { options in
      options.proxies = [AddressRange("127.0.0.1")].compactMap(\.self)
    }
    let service = bench.service
    defer { service.stop() }
    let direct = try RawTCPClient(service.address(.provider))
    try direct.send([0x16, 0x03, 0x01])
    #expect(try direct.receiveAll().bytes == [])
    let event = "connection refused, its proxy does not name the client"
    let lines = bench.lines.all(event)
    #expect(lines.count == 1 && lines[0].contains("peer=127.0.0.1:"), "\(lines)")
    #expect(lines[0].contains("does not begin with a PROXY header"), "\(lines)")
    #expect(try bench.ended("proxy") == 1)
  }

  @Test("A listener for proxies accepts nobody else")
  func stranger() throws {
    let bench = try MonitoredService { options in
      options.proxies = [AddressRange("127.0.0.2")].compactMap(\.self)
    }
    let service = bench.service
    defer { service.stop() }
    let stranger = try RawTCPClient(service.address(.gateway))
    try stranger.send(header("192.0.2.7"))
    #expect(try stranger.receiveAll().bytes == [])
    let lines = bench.lines.all("connection refused, not from a proxy")
    #expect(lines.count == 1 && lines[0].contains("peer=127.0.0.1:"), "\(lines)")
    #expect(lines[0].contains("listener=\"gateway production\""), "\(lines)")
    #expect(try bench.ended("proxy") == 1)
  }
}
