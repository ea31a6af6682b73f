import ApusAdmin
import ApusCore
import ApusDirectory
import ApusLoop
import ApusModel
import ApusServer
import ApusStore
import ApusTesting
import ApusWire
import Testing

/// Two nodes that decide at the same time, each about a part of the devices. Clients connect to that of part 1; the
/// other one has what exists once, such as channels.
@Suite("Nodes with a part of the devices each")
struct PartsTests {
  private let service: BroadcastService
  /// Of part 1.
  private let store = MemoryStore()
  private let nodes: NodesByHand
  private static let share = DeviceShare(part: 1, of: 2)

  init() throws {
    service = try BroadcastService(
      nil,
      .init { [store] in
        ($0.parts, $0.isBehindEdge, $0.lastPartStore) = (2, false, store)
      })
    nodes = try NodesByHand(service.service)
  }

  /// A device that is connected to the node of part 1, and in that part or not.
  private func connect(isHere: Bool) throws -> ConnectedDevice {
    let share = try #require(Self.share)
    while true {
      let device = try service.directory.device()
      guard share.contains(device.id) == isHere else { continue }
      return try service.connect(device)
    }
  }

  private func link(_ purpose: [UInt8]) throws -> RawTLSClient {
    let client = try nodes.connect(try nodes.identity("b"))
    try client.send(purpose)
    return client
  }

  private func take(_ count: Int, from link: RawTLSClient) throws -> [UInt8] {
    let bytes = try link.take(count)
    return try #require(bytes)
  }

  // MARK: Notifications

  @Test("A push reaches the devices of both parts, and their verdicts come back")
  func pushes() throws {
    let provider = try service.service.provider()
    let authorization = try service.service.authorization()
    for isHere in [true, false] {
      let device = try connect(isHere: isHere)
      try device.enable(TestDirectory.topic)
      let headers = service.service.pushHeaders(
        to: try device.token(), authorization: authorization)
      #expect(try provider.exchange(headers, body: TestService.payload).status == 200)
      let frame = try device.client.expect(0x0a, skipping: 0x0e)
      #expect(frame[3] == TestService.payload)
    }
  }

  @Test("A notification for a device of another part ends its link, and harms nobody")
  func wrongPart() throws {
    let bystanders = try Bystanders(service.service)
    func frame(_ device: [UInt8]) -> [UInt8] {
      [0, 0, 0, 106] + [0, 0, 0, 77] + [UInt8](repeating: 7, count: 32) + device + [0, 0, 0, 1]
        + [0, 0] + [0, 0] + [UInt8](repeating: 0, count: 32) + [UInt8](repeating: 0, count: 16)
        + [10, 0, 0] + [0] + [0x7b, 0x7d]
    }
    // 0xabcd is in part 1 of two, 0xabce in part 0.
    let link = try link([1, 0, 2] + frame([0, 0, 0, 0, 0, 0, 0xab, 0xce]))
    let reason = Array("DeviceTokenNotForTopic".utf8)
    #expect(
      try take(13 + reason.count, from: link) == [0, 0, 0, 77, 0, 0, 0, 0, 0, 0, 0, 0, 22] + reason)
    try link.send(frame([0, 0, 0, 0, 0, 0, 0xab, 0xcd]))
    #expect(try link.receiveAll().bytes.isEmpty)
    try bystanders.expectUndisturbed()
  }

  @Test("A link for a part that the node does not decide about is refused")
  func refusedLink() throws {
    for purpose in [
      [1, 1, 2], [2, 1, 2, 0, 0], [3, 1, 2, 0, 0, 0, 0], [4, 1, 2, 0], [4, 0, 2, 0], [4, 0, 2, 2],
      // From a node that knows another number of parts.
      [1, 0, 1], [2, 0, 3, 0, 0], [3, 0, 1, 0, 0, 0, 0], [4, 0, 3, 1],
    ] {
      #expect(try link(purpose.map(UInt8.init)).receiveAll().bytes.isEmpty, "\(purpose)")
    }
  }

  @Test("The node of a legacy sender learns by hand that a device gets too much")
  func flood() throws {
    let service = try TestService(
      nil,
      .init {
        ($0.parts, $0.isBehindEdge) = (2, false)
        ($0.requestsPerToken, $0.requestsPerTokenPerSecond) = (2, 1)
      })
    defer { service.stop() }
    let share = try #require(Self.share)
    var identity = try service.directory.device()
    while share.contains(identity.id) { identity = try service.directory.device() }
    let device = try service.connect(identity)
    try device.enable(TestDirectory.topic)
    let nodes = try NodesByHand(service)
    let link = try nodes.connect(try nodes.identity("b"))
    try link.send([1, 0, 2])
    // On the binary interface, to be delivered or dropped; the last byte is the payload's.
    for number in UInt8(1)...3 {
      let ids = [UInt8](repeating: number, count: 32)
      let claims =
        bigEndian(identity.id.rawValue) + [0, 0, 0, 1, 0, Environment.production.rawValue]
      try link.send(
        [0, 0, 0, 106, 0, 0, 0, number] + ids + claims + [0, 0]
          + [UInt8](repeating: 0, count: 32 + 16) + [10, 0xff, 2, 0] + [0x7b, 0x7d])
    }
    func verdict(_ number: UInt8) -> [UInt8] {
      [0, 0, 0, number] + [UInt8](repeating: 0, count: 9)
    }
    let notice = [0, 0, 0, 3] + [UInt8](repeating: 0, count: 8) + [255, 1]
    let expected = verdict(1) + verdict(2) + notice + verdict(3)
    #expect(try take(expected.count, from: link) == expected)
    for _ in 0..<3 { _ = try device.notification() }
  }

  // MARK: Channels

  @Test("A copy of the channels learns by hand what happens to them, and says what devices do")
  func copy() throws {
    let channel = try service.createChannel()
    let id = try channelBytes(channel)
    let sent = try service.provider().store(channel, 1)
    let link = try link([4, 0, 2, 1])
    // The channel, what it keeps, and that this is all.
    let known = try take(35 + 4 + 58 + sent.payload.count + 5, from: link)
    #expect(Array(known[..<21]) == [0, 0, 0, 31, 1] + id)
    #expect(known[26] == 1)
    let kept = Array(known[35...])
    #expect(Array(kept[..<21]) == [0, 0, 0, UInt8(58 + sent.payload.count), 2] + id)
    #expect(Array(kept[29..<45]) == idBytes(sent.id))
    #expect(Array(kept[62..<62 + sent.payload.count]) == sent.payload)
    #expect(Array(kept.suffix(5)) == [0, 0, 0, 1, 5])
    let second = try service.createChannel(storage: 0)
    let secondID = try channelBytes(second)
    let created = try take(35, from: link)
    #expect(Array(created[..<21]) == [0, 0, 0, 31, 1] + secondID)
    #expect(try service.provider().broadcast(second).status == 200)
    let update = Array(BroadcastService.update.utf8)
    let once = try take(62 + update.count, from: link)
    #expect(Array(once[5..<21]) == secondID && Array(once.suffix(update.count)) == update)
    // One attempt.
    #expect(Array(once[53..<61]) == [0, 0, 0, 0, 0, 0, 0, 0])
    try service.deleteChannel(second)
    #expect(try take(21, from: link) == [0, 0, 0, 17, 4] + secondID)
    try link.send([0, 0, 0, 9, 7, 0, 0, 0, 0, 0, 0, 0, 3])
    #expect(try take(13, from: link) == [0, 0, 0, 9, 6, 0, 0, 0, 0, 0, 0, 0, 3])
    // 2 deliveries, 5 subscriptions of 4 devices.
    try link.send([0, 0, 0, 33, 8] + id + [0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 5])
    // The app and its environment, as they came.
    try link.send([0, 0, 0, 14, 9] + known[21..<26] + [0, 0, 0, 0, 0, 0, 0, 4])
    try link.send([0, 0, 0, 1, 10])
    let channelID = ChannelID(bytes: id.span)
    try waitUntil("the figures of the copy") {
      let figures = channelID.flatMap { service.service.service.channelCensus()?.channels[$0] }
      return figures?.delivered == 2 && figures?.subscriptions == 5
    }
    let apps = service.service.service.channelCensus()?.apps.values.map(\.subscribers)
    #expect(apps == [4])
  }

  @Test(
    "What is no message of a copy ends its link, and no other",
    arguments: [[0, 0, 0, 1, 11], [0, 0, 0, 1, 5], [0xff, 0xff, 0xff, 0xff]] as [[UInt8]])
  func nonsense(_ bytes: [UInt8]) throws {
    let bystanders = try Bystanders(service.service)
    let link = try link([4, 0, 2, 1] + bytes)
    // Perhaps that all was said.
    #expect(try link.receiveAll().bytes.count <= 5)
    try bystanders.expectUndisturbed()
  }

  @Test("Devices of both parts get broadcasts, and are counted")
  func broadcasts() throws {
    let channel = try service.createChannel()
    let devices = [try connect(isHere: true), try connect(isHere: false)]
    for device in devices { try device.subscribe(channel) }
    let sent = try service.provider().store(channel, 1)
    for device in devices {
      let frame = try device.broadcast()
      #expect(frame[3] == sent.payload && frame[0x40] == idBytes(sent.id))
    }
    try waitUntil("deliveries and subscriptions of both parts") {
      let figures = service.service.service.channelCensus()?.channels.values.first
      return figures?.delivered == 2 && figures?.subscriptions == 2
    }
  }

  /// The node that has the channels, which answers questions.
  private func channelNode() throws -> NodeByHand {
    let hand = try NodeByHand(
      nodes.identity("a"), beginning: LinkBeginning(purpose: [4, 0, 2, 1], greeting: [])
    ) { bytes in
      bytes.starts(with: [0, 0, 0, 9, 7]) ? [0, 0, 0, 9, 6] + bytes[5..<13] : []
    }
    service.service.service.setLinkTarget((try #require(TestService.node), hand.address))
    try waitUntil("the copy's link") { hand.linkCount == 1 }
    return hand
  }

  private func channel(_ id: [UInt8]) throws -> [UInt8] {
    let topic = Array(BroadcastService.topic.utf8)
    let resolved = service.service.service.trust()?.directory.resolve(topic.span)
    let app = bigEndian(try #require(resolved).key.app.rawValue)
    return [0, 0, 0, 31, 1] + id + app
      + [Environment.production.rawValue, 1, 0, 0, 1, 0x8b, 0, 0, 0, 1]
  }

  /// - Parameter seconds: For which it is kept; nil: it is for one attempt.
  private func broadcast(
    _ id: [UInt8], order: UInt8, _ payload: [UInt8], keptSeconds: UInt64? = 3600
  ) -> [UInt8] {
    let seconds = UInt64(TestDirectory.nowSeconds)
    var bytes = [0, 0, 0, UInt8(58 + payload.count), 2] + id + [0, 0, 0, 0, 0, 0, 0, order]
    bytes += [UInt8](repeating: order, count: 16)
    bytes += bigEndian(seconds * 1000) + bigEndian(keptSeconds.map { seconds + $0 } ?? 0) + [10]
    return bytes + payload
  }

  private static let ids = [[UInt8](repeating: 8, count: 16), [UInt8](repeating: 9, count: 16)]
  private static let names = ids.map { id in
    String(decoding: Base64.encode(id.span), as: UTF8.self)
  }

  @Test("A copy is kept by hand, and catches up when its link has ended")
  func byHand() throws {
    let (ids, names) = (Self.ids, Self.names)
    let device = try connect(isHere: true)
    let hand = try channelNode()
    try hand.send(channel(ids[0]) + channel(ids[1]) + [0, 0, 0, 1, 5])
    try device.subscribe(names[0], names[1])
    // One that is older than the newest comes too late.
    hand.send(
      broadcast(ids[0], order: 3, [0x7b, 0x7d]) + broadcast(ids[0], order: 2, [0x5b, 0x5d]))
    let frame = try device.broadcast()
    #expect(frame[3] == [0x7b, 0x7d] && frame[0x40] == [UInt8](repeating: 3, count: 16))
    try device.expectNothing()
    hand.cut()
    try waitUntil("its next link") { hand.linkCount == 2 }
    // The second channel is gone, and the first one keeps another broadcast.
    try hand.send(
      channel(ids[0]) + broadcast(ids[0], order: 3, [0x7b, 0x7d])
        + broadcast(ids[0], order: 4, [0x7b, 0x20, 0x7d]) + [0, 0, 0, 1, 5])
    #expect(try device.broadcast()[3] == [0x7b, 0x20, 0x7d])
    try device.expectNothing()
    try waitUntil("the second channel's end") {
      try device.change(ConnectedDevice.subscriptions(to: [names[1]]))[4] == [2]
    }
  }

  @Test("What a copy cannot write is tried again, over the same link")
  func unwritten() throws {
    let id = Self.ids[0]
    let device = try connect(isHere: true)
    let hand = try channelNode()
    let full = StoreError.diskFull(path: "store", detail: "on purpose")
    store.failNextCommits(1, with: full)
    try hand.send(channel(id) + [0, 0, 0, 1, 5])
    try device.subscribe(Self.names[0])
    // One that is kept, which comes once it is durable.
    store.failNextCommits(1, with: full)
    hand.send(broadcast(id, order: 3, [0x7b, 0x7d]))
    #expect(try device.broadcast()[0x40] == [UInt8](repeating: 3, count: 16))
    // Of two the newer one; it is for one attempt, and does not come again with a link.
    store.failNextCommits(2, with: full)
    hand.send(
      broadcast(id, order: 4, [0x7b, 0x7d])
        + broadcast(id, order: 5, [0x7b, 0x7d], keptSeconds: nil))
    #expect(try device.broadcast()[0x40] == [UInt8](repeating: 5, count: 16))
    try device.expectNothing()
    #expect(hand.linkCount == 1)
    #expect(try channels() == [id])
  }

  @Test("A channel that has ended before it could be written does not come back")
  func unwrittenEnd() throws {
    let (ids, names) = (Self.ids, Self.names)
    let device = try connect(isHere: true)
    let hand = try channelNode()
    store.failNextCommits(2, with: .diskFull(path: "store", detail: "on purpose"))
    try hand.send(channel(ids[0]) + channel(ids[1]) + [0, 0, 0, 1, 5])
    hand.send([0, 0, 0, 17, 4] + ids[0])
    try waitUntil("the second attempt at the other one") { try channels() == [ids[1]] }
    #expect(try device.change(ConnectedDevice.subscriptions(to: [names[0]]))[4] == [2])
    try device.subscribe(names[1])
  }

  /// The ids of those that are in the store.
  private func channels() throws -> [[UInt8]] {
    var found: [[UInt8]] = []
    try store.forEachChannel {
      found.append(bigEndian($0.id.high) + bigEndian($0.id.low))
    } fault: { _ in
    }
    return found
  }

  @Test("While the channels' node does not answer, a channel that may be new is no unknown one")
  func unknown() throws {
    let device = try connect(isHere: true)
    let known = try service.createChannel()
    try device.subscribe(known)
    let silent = try NodeByHand(nodes.identity("a"))
    service.service.service.setLinkTarget((try #require(TestService.node), silent.address))
    let id = Base64.encode([UInt8](repeating: 9, count: 16).span)
    let wanted = ConnectedDevice.subscriptions(to: [String(decoding: id, as: UTF8.self)])
    #expect(try device.change(wanted)[4] == [4])
    // What needs no question goes on.
    #expect(try device.change(ConnectedDevice.subscriptions(to: [], from: [known]))[4] == [0])
  }
}
