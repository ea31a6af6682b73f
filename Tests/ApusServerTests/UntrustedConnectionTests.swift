import ApusLoop
import ApusModel
import ApusServer
import ApusTesting
import Glibc
import Testing

/// Peers that connect without a credential while connections are limited.
@Suite("Untrusted peers at the connection limit")
struct UntrustedConnectionTests {
  private let service: TestService

  init() throws {
    service = try TestService(
      nil,
      TestService.Options {
        $0.connectionCapacity = 40
        $0.workers = 1
      })
  }

  /// Connections that send nothing.
  private func untrustedClients(_ count: Int, at address: SocketAddress) throws -> [Int32] {
    try (0..<count).map { _ in
      let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
      try #require(descriptor >= 0)
      var target = sockaddr_in()
      target.sin_family = sa_family_t(AF_INET)
      target.sin_port = address.port.bigEndian
      target.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
      let code = withUnsafePointer(to: &target) {
        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
          connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
        }
      }
      try #require(code == 0)
      return descriptor
    }
  }

  /// How many of them the service has not closed.
  private func openCount(_ descriptors: [Int32]) -> Int {
    descriptors.count { descriptor in
      var byte: UInt8 = 0
      let flags = Int32(MSG_DONTWAIT | MSG_PEEK)
      return recv(descriptor, &byte, 1, flags) < 0 && errno == EAGAIN
    }
  }

  @Test(
    "A device and a provider connect beside a hundred untrusted peers, replacing the oldest"
  )
  func sameAddress() throws {
    defer { service.stop() }
    let crowd = try untrustedClients(100, at: service.address(.courier))
    defer { for descriptor in crowd { close(descriptor) } }
    let token = try service.connect().token()
    #expect((1...32).contains(openCount(crowd)))
    let provider = try service.provider()
    let headers = try service.pushHeaders(to: token, authorization: service.authorization())
    #expect(try provider.exchange(headers, body: TestService.payload).status == 200)
  }

  @Test("Untrusted peers do not end a trusted connection")
  func trusted() throws {
    defer { service.stop() }
    let token = try service.connect().token()
    let provider = try service.provider()
    let headers = try service.pushHeaders(to: token, authorization: service.authorization())
    #expect(try provider.exchange(headers, body: TestService.payload).status == 200)
    let crowd = try untrustedClients(100, at: service.address(.provider))
    defer { for descriptor in crowd { close(descriptor) } }
    #expect(try provider.exchange(headers, body: TestService.payload).status == 200)
    // The listener accepts connections in order, so this one comes after all of them.
    let last = try service.provider()
    #expect(try last.exchange(headers, body: TestService.payload).status == 200)
    #expect(openCount(crowd) <= 32)
  }

  @Test("Providers of one team leave connections for other teams, devices and untrusted clients")
  func greedyTeam() throws {
    defer { service.stop() }
    let token = try service.connect().token()
    let identity = try service.directory.providerIdentity()
    let absent = try service.pushHeaders(to: Shared.absentToken, authorization: nil)
    var accepted: [RawHTTP2Client] = []
    var refused: RawHTTP2Client?
    while accepted.count < 40, refused == nil {
      let client = try service.provider(identity: identity)
      if let response = try? client.exchange(absent, body: TestService.payload) {
        #expect(response.status == 400)
        accepted.append(client)
      } else {
        refused = client
      }
    }
    #expect((28...33).contains(accepted.count), "\(accepted.count)")
    let goAway = try #require(refused?.received.compactMap(\.goAway).first)
    #expect(goAway.debugData.contains("TooManyRequests"))
    // The same team by a token: the request is answered, then the connection ends.
    let late = try service.provider()
    let headers = try service.pushHeaders(to: token, authorization: service.authorization())
    #expect(try late.exchange(headers, body: TestService.payload).status == 429)
    // And by the binary interface, which has no packet for it.
    let sender = try service.gateway(listener: 0, identity: identity)
    try expectEnd(sender, nil)
    let other = try service.provider()
    let now = TestDirectory.nowSeconds
    let foreign = try service.pushHeaders(
      to: token, topic: TestDirectory.foreignTopic,
      authorization: "bearer \(service.directory.foreignKey.token(issuedAt: now))")
    #expect(try other.exchange(foreign, body: TestService.payload).status == 400)
    _ = try service.connect()
    // Those who are there are served, and one who goes makes room.
    for client in accepted {
      #expect(try client.exchange(absent, body: TestService.payload).status == 400)
    }
  }
}
