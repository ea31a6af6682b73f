import Testing

@testable import ApusLoop

@Suite("Assignment of inherited sockets to listeners")
struct SocketAssignmentTests {
  private static let plans = [
    ListenerPlan(name: "http2", addresses: [.anyIPv4(port: 2197), .anyIPv6(port: 2197)]),
    ListenerPlan(name: "gateway", addresses: [.loopbackIPv4(port: 2195)]),
    ListenerPlan(name: "gateway", addresses: [.loopbackIPv4(port: 3195)]),
    ListenerPlan(name: "admin", addresses: []),
  ]

  private static func socket(
    _ name: String, _ address: SocketAddress, takesIPv4: Bool = false
  ) -> InheritedSocket {
    InheritedSocket(descriptor: 3, name: name, address: address, takesIPv4: takesIPv4)
  }

  private static func addresses(_ sockets: InheritedSocket...) throws -> [[SocketAddress]] {
    try ListenerPlan.assign(sockets, to: plans).map(\.addresses)
  }

  @Test("A configured address is sufficient, and the other addresses stay")
  func byAddress() throws {
    #expect(
      try Self.addresses(Self.socket("apus.socket", .anyIPv4(port: 2197)))
        == Self.plans.map(\.addresses))
  }

  @Test("A socket for both families replaces the IPv4 address")
  func bothFamilies() throws {
    let found = try Self.addresses(
      Self.socket("apus.socket", .anyIPv6(port: 2197), takesIPv4: true))
    #expect(found[0] == [.anyIPv6(port: 2197)])
  }

  @Test("Sockets with a listener's name replace all its addresses")
  func byName() throws {
    let found = try Self.addresses(
      Self.socket("http2", .loopbackIPv4(port: 1)), Self.socket("http2", .loopbackIPv6(port: 2)),
      Self.socket("admin", .loopbackIPv4(port: 3)))
    #expect(found[0] == [.loopbackIPv4(port: 1), .loopbackIPv6(port: 2)])
    #expect(found[3] == [.loopbackIPv4(port: 3)])
  }

  @Test("Listeners with the same name are distinguished by their addresses")
  func sameName() throws {
    let found = try Self.addresses(Self.socket("gateway", .loopbackIPv4(port: 3195)))
    #expect(found == Self.plans.map(\.addresses))
    let foreign = Self.socket("gateway", .loopbackIPv4(port: 9))
    #expect(throws: InheritedSocketError.ambiguous(foreign)) { try Self.addresses(foreign) }
  }

  @Test("A socket with no listener's name or address is an error that lists the names")
  func unmatched() {
    let foreign = Self.socket("htpp2", .loopbackIPv4(port: 9))
    let error = #expect(throws: InheritedSocketError.self) { try Self.addresses(foreign) }
    #expect(error == .unmatched(foreign, listeners: ["http2", "gateway", "admin"]))
    #expect(
      error?.description
        == "no listener has the name or the address of inherited socket 127.0.0.1:9 (htpp2): set "
        + "FileDescriptorName= to one of http2, gateway, admin, or use an address that the "
        + "service is configured for")
  }

  @Test("An address given twice, to one listener or to two, is an error")
  func conflicts() {
    let address = SocketAddress.loopbackIPv4(port: 2195)
    #expect(throws: InheritedSocketError.duplicate(address)) {
      try Self.addresses(Self.socket("gateway", address), Self.socket("x", address))
    }
    #expect(
      throws: InheritedSocketError.claimedTwice(address, listeners: ["http2", "gateway"])
    ) {
      try Self.addresses(Self.socket("http2", address))
    }
  }

  @Test("A mapped peer has its IPv4 address, and other addresses are unchanged")
  func unmapped() throws {
    #expect(try SocketAddress("[::ffff:192.0.2.1]:5").unmapped == SocketAddress("192.0.2.1:5"))
    for text in ["192.0.2.1:5", "[::1]:5", "[2001:db8::ffff:c000:201]:5", "[::fffe:c000:201]:5"] {
      #expect(try SocketAddress(text).unmapped == SocketAddress(text))
    }
  }
}
