import ApusDevice
import ApusModel
import ApusWire
import Testing

@Suite("A courier client asks for subscriptions to channels")
struct ChannelRequestTests {
  private static let change = CourierSubscriptions(
    topics: [
      CourierChannelTopic(topic: Array("a.b".utf8), subscribed: [CourierChannelMark(id: [1, 2])])
    ])

  /// A request for `change`, with this index.
  private static func request(_ index: Int) -> String {
    hex(
      bytes(
        "1d 0000003c 01 0004 0000000\(index)"
          + "02 000f 0801 120b 0a03612e62 1204 0a020102 03 0020 \(baseHex)"))
  }

  private static func confirmation(_ index: Int, status: Int = 0) -> [UInt8] {
    bytes("1d 0000000b 01 0004 0000000\(index) 04 0001 0\(status)")
  }

  /// A client with a filter, which it has sent if it is connected.
  private func filtered(_ scripted: Scripted) -> Scripted {
    var scripted = scripted
    scripted.client.setTopics(enabled: [topic(appHex)], to: &scripted.said)
    scripted.said = []
    return scripted
  }

  @Test("The request is sent at once behind the filter, and confirmed once")
  func connected() {
    var scripted = filtered(.connected())
    #expect(scripted.client.subscribe(Self.change, to: &scripted.said) == 1)
    #expect(scripted.takeSaid() == Self.request(1))
    scripted.receive(Self.confirmation(1, status: 2))
    #expect(scripted.heard == ["subscriptions 1 2"])
    scripted.receive(Self.confirmation(1) + Self.confirmation(9))
    #expect(scripted.heard.count == 1)
    #expect(scripted.client.skippedCount == 2)
  }

  @Test("Without a filter, and without a connection, the request waits for the filter")
  func waits() {
    var scripted = Scripted.connected()
    #expect(scripted.client.subscribe(Self.change, to: &scripted.said) == 1)
    #expect(scripted.said.isEmpty)
    scripted.client.setTopics(enabled: [topic(appHex)], to: &scripted.said)
    let said = scripted.takeSaid()
    #expect(said.hasPrefix("09") && said.hasSuffix(Self.request(1)))
    scripted.client.setTopics(enabled: [topic(chatHex)], to: &scripted.said)
    #expect(!scripted.takeSaid().contains(Self.request(1)))
  }

  @Test("What is not confirmed is repeated on the next connection, what is confirmed is not")
  func repeats() {
    var scripted = filtered(.connected())
    for index: UInt32 in [1, 2] {
      #expect(scripted.client.subscribe(Self.change, to: &scripted.said) == index)
    }
    scripted.receive(Self.confirmation(1))
    scripted.client.disconnected()
    scripted.begin()
    scripted.said = []
    scripted.receive(FromService.accepted())
    let said = scripted.takeSaid()
    #expect(said.hasSuffix(Self.request(2)) && !said.contains(Self.request(1)))
  }

  @Test("Sixteen requests may be pending")
  func limit() {
    var scripted = filtered(.connected())
    for index: UInt32 in 1...16 {
      #expect(scripted.client.subscribe(Self.change, to: &scripted.said) == index)
    }
    #expect(scripted.client.subscribe(Self.change, to: &scripted.said) == nil)
    scripted.receive(Self.confirmation(3))
    #expect(scripted.client.subscribe(Self.change, to: &scripted.said) == 17)
  }
}
