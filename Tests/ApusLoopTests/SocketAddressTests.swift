import Foundation
import Testing

@testable import ApusLoop

@Suite(.timeLimit(.minutes(30)))
struct SocketAddressTests {
  @Test(
    "Addresses are read and written in their usual form",
    arguments: [
      ("127.0.0.1:2197", SocketAddress.Family.ipv4, 2197, "127.0.0.1:2197"),
      ("0.0.0.0:0", .ipv4, 0, "0.0.0.0:0"),
      ("255.254.253.252:65535", .ipv4, 65535, "255.254.253.252:65535"),
      ("[::1]:2197", .ipv6, 2197, "[::1]:2197"),
      ("[::]:443", .ipv6, 443, "[::]:443"),
      ("*:2197", .ipv6, 2197, "[::]:2197"),
      ("[2001:DB8:0:0:1:0:0:1]:1", .ipv6, 1, "[2001:db8::1:0:0:1]:1"),
      ("[::ffff:192.0.2.1]:5", .ipv6, 5, "[::ffff:192.0.2.1]:5"),
      ("[fe80::1%1]:80", .ipv6, 80, "[fe80::1%1]:80"),
      ("[fe80::1%lo]:80", .ipv6, 80, "[fe80::1%1]:80"),
    ])
  func text(
    _ text: String, _ family: SocketAddress.Family, _ port: UInt16, _ written: String
  ) throws {
    let address = try SocketAddress(text)
    #expect(address.family == family)
    #expect(address.port == port)
    #expect(address.description == written)
    let viaSystem = address.withSystemAddress { pointer, _ in SocketAddress(pointer) }
    #expect(viaSystem == address)
  }

  @Test(
    "A text that is not an address and a port is rejected",
    arguments: [
      "", ":", ":80", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:+1",
      "127.0.0.1: 1", "127.0.0:80", "127.0.0.1.1:80", "256.0.0.1:80", "::1:80", "[::1]", "[::1]:",
      "[::1:80", "::1]:80", "[]:80", "[127.0.0.1]:80", "localhost:80", "**:80", "[fe80::1%]:80",
      "[fe80::1%no-such-interface]:80", "[::1]x:80",
    ])
  func notAnAddress(_ text: String) {
    #expect(throws: SocketError.invalidAddress(text)) { try SocketAddress(text) }
  }

  @Test("The bytes passed to the system are those of the address")
  func systemForm() throws {
    let four = try SocketAddress("192.0.2.1:258")
    let fourBytes = four.withSystemAddress { pointer, length in
      [UInt8](UnsafeRawBufferPointer(start: pointer, count: Int(length)))
    }
    // sockaddr_in: the family in the machine's order, port and address in the network's, 8 bytes of padding.
    #expect(fourBytes == [2, 0, 1, 2, 192, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0])
    let six = try SocketAddress("[2001:db8::ff]:258")
    let sixBytes = six.withSystemAddress { pointer, length in
      [UInt8](UnsafeRawBufferPointer(start: pointer, count: Int(length)))
    }
    // sockaddr_in6: family, port, flow, address, scope.
    #expect(
      sixBytes == [10, 0, 1, 2, 0, 0, 0, 0]
        + [0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff] + [0, 0, 0, 0])
  }

  private struct Site: Hashable {
    var site: SocketAddress
    var high: UInt64
    var low: UInt64

    /// Of a peer as a listener that accepts both families sees it.
    init(_ text: String) throws {
      let peer = try SocketAddress(text).unmapped
      site = peer.site
      (high, low) = peer.siteNumbers
    }
  }

  @Test("An IPv6 site is a /64, and an IPv4 address is a site, also as an IPv6 address")
  func sites() throws {
    let home = [
      "[2001:db8:1:2::1]:80", "[2001:db8:1:2::1]:81", "[2001:db8:1:2:ffff:ffff:ffff:ffff]:80",
    ]
    #expect(try Set(home.map(Site.init)).count == 1)
    #expect(try Set(home.map { try SocketAddress($0).site.description }) == ["[2001:db8:1:2::]:0"])
    let neighbour = ["[2001:db8:1:3::1]:80", "[2001:db8:1:1:ffff:ffff:ffff:ffff]:80"]
    #expect(try Set((home + neighbour).map(Site.init)).count == 3)
    // Both as sites and as numbers.
    #expect(try Set((home + neighbour).map { try Site($0).high }).count == 3)
    #expect(try Set((home + neighbour).map { try Site($0).site }).count == 3)

    let mapped = ["192.0.2.1:80", "[::ffff:192.0.2.1]:80", "[::ffff:c000:201]:81"]
    #expect(try Set(mapped.map(Site.init)).count == 1)
    #expect(try SocketAddress(mapped[1]).unmapped == SocketAddress(mapped[0]))
    #expect(try Set(mapped.map { try SocketAddress($0).unmapped.site.hostText }) == ["192.0.2.1"])
    let others = ["192.0.2.2:80", "[::ffff:192.0.2.3]:80"]
    #expect(try Set((mapped + others).map(Site.init)).count == 3)
    #expect(try Set((mapped + others).map { try Site($0).low }).count == 3)
    // These are not mapped addresses: their sites are ::/64 and 64:ff9b::/64.
    for text in ["[::192.0.2.1]:80", "[::fffe:192.0.2.1]:80", "[64:ff9b::192.0.2.1]:80"] {
      let address = try SocketAddress(text)
      #expect(address.unmapped == address && address.unmapped.family == .ipv6)
    }
  }

  @Test("A family that is neither IPv4 nor IPv6 has no address")
  func otherFamily() throws {
    let (near, far) = try socketPair()
    #expect(SocketAddress { getsockname(near, $0, $1) } == nil)
    close(near)
    close(far)
  }

  @Test("localhost is resolved, blocking and on a loop")
  func resolveLocalhost() async throws {
    let blocking = try SocketAddress.resolve(host: "localhost", port: 2197)
    let loopbacks = [SocketAddress.loopbackIPv4(port: 2197), .loopbackIPv6(port: 2197)]
    #expect(!blocking.isEmpty && Set(blocking).isSubset(of: loopbacks))
    try await withLoops("resolving") { loops in
      let loop = loops[0]
      let found = try await withCheckedThrowingContinuation { continuation in
        loop.perform {
          SocketAddress.resolve(host: "localhost", port: 2197, on: loop) { result in
            #expect(loop.isOnLoop)
            continuation.resume(with: result)
          }
        }
      }
      #expect(Set(found) == Set(blocking))
    }
  }

  @Test("Numeric addresses resolve to themselves", arguments: ["192.0.2.7", "2001:db8::7"])
  func resolveFigures(_ host: String) throws {
    let found = try SocketAddress.resolve(host: host, port: 7)
    #expect(found.map(\.description) == [host.contains(":") ? "[\(host)]:7" : "\(host):7"])
  }

  @Test("A host that cannot exist is reported by name, blocking and on a loop")
  func unresolvable() async throws {
    // Longer than the 253 bytes of a domain name, so that no resolver is asked.
    let host = String(repeating: "a", count: 300)
    let error = #expect(throws: SocketError.self) {
      try SocketAddress.resolve(host: host, port: 1)
    }
    #expect(error?.description.contains(host) == true)
    try await withLoops("unresolvable") { loops in
      let loop = loops[0]
      let result = await withCheckedContinuation { continuation in
        loop.perform {
          SocketAddress.resolve(host: host, port: 1, on: loop) {
            continuation.resume(returning: $0)
          }
        }
      }
      guard case .failure(.unresolved(host, _)) = result else {
        Issue.record("resolved to \(result)")
        return
      }
    }
  }

  @Test("A resolution pending when the loop stops is answered before the end")
  func resolveWhileStopping() async throws {
    let loop = EventLoop(name: "stopping")
    let answers = Confined(0)
    loop.start()
    loop.perform {
      SocketAddress.resolve(host: "localhost", port: 1, on: loop) { _ in answers.value += 1 }
      loop.stop()
    }
    loop.stopAndJoin()
    #expect(answers.value == 1)
  }
}
