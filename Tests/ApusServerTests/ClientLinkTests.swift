import ApusCore
import ApusLoop
import ApusModel
import ApusStore
import ApusTLS
import ApusTesting
import ApusTrust
import Glibc
import Testing

/// A link with clients' connections, by hand. The clients have no sockets: the test is their node.
@Suite("Connections of clients at another node")
final class ClientLinkTests {
  private let store = MemoryStore()
  private let service: TestService
  private let link: RawTLSClient

  private struct Frame: Equatable {
    var client: UInt32
    var kind: UInt8
    var content: [UInt8]
  }

  private static let (open, bytes, credit, finished, stopping, ended, resume):
    (
      UInt8, UInt8, UInt8, UInt8, UInt8, UInt8, UInt8
    ) = (2, 4, 5, 6, 7, 8, 12)
  private static let (state, handled, released): (UInt8, UInt8, UInt8) = (9, 10, 11)

  /// What the node has said of each client for the next node: the bytes of each part, by its number.
  private var states: [UInt32: [UInt8: [UInt8]]] = [:]
  /// How many bytes of each client it has dealt with.
  private var handledBytes: [UInt32: Int] = [:]

  init() throws {
    let store = store
    service = try TestService(
      nil,
      .init {
        ($0.isBehindEdge, $0.store, $0.workers, $0.gatewayRules) = (true, store, 1, [])
      })
    let nodes = try NodesByHand(service)
    link = try nodes.connect(nodes.identity("a"), receiveBuffer: 65_536)
    // For clients, to worker 0.
    try link.send([2, 0, 1, 0, 0])
    // The node has one.
    let hello = try next()
    #expect(hello == Frame(client: 0, kind: 1, content: [0, 1]))
  }

  /// The service need not wait for the clients' node when it stops.
  deinit { link.reset() }

  // MARK: The link

  private func send(_ client: UInt8, _ kind: UInt8, _ content: [UInt8] = []) throws {
    try link.send(
      [0, 0, 0, client, kind, 0, UInt8(content.count >> 8), UInt8(content.count & 0xff)] + content)
  }

  /// The next frame but those that are meant for the next node.
  private func next() throws -> Frame? {
    while let head = try link.take(8) {
      let client = head[..<4].reduce(0) { $0 << 8 | UInt32($1) }
      let count = Self.number(head[5...])
      let content = count == 0 ? [] : try link.take(count) ?? []
      switch head[4] {
      case Self.state: states[client, default: [:]][content[0]] = Array(content[1...])
      case Self.handled: handledBytes[client, default: 0] += Self.number(content[...])
      default: return Frame(client: client, kind: head[4], content: content)
      }
    }
    return nil
  }

  private static func number(_ bytes: ArraySlice<UInt8>) -> Int {
    bytes.reduce(0) { $0 << 8 | Int($1) }
  }

  /// Frames until one of this kind, which comes last.
  private func frames(until kind: UInt8) throws -> [Frame] {
    var frames: [Frame] = []
    while let frame = try next() {
      frames.append(frame)
      if frame.kind == kind { return frames }
    }
    throw RawFault.unexpected("the link ended after \(frames)")
  }

  /// Opens a client of a listener of production: the first one, from 192.0.2.9:1000.
  private func open(
    _ client: UInt8, listener: UInt8, protocolName: String = "", certificate: [UInt8],
    first: [UInt8] = []
  ) throws {
    try send(client, Self.open, Self.peer(listener, protocolName, certificate) + first)
    guard listener != 2 else { return }
    while let frame = try next(), frame != Frame(client: UInt32(client), kind: 3, content: []) {}
  }

  private static func peer(
    _ listener: UInt8, _ protocolName: String, _ certificate: [UInt8]
  ) -> [UInt8] {
    let name = Array(protocolName.utf8)
    let peer: [UInt8] =
      [listener, 0, 0, 4, 192, 0, 2, 9, 3, 0xe8, UInt8(name.count)] + name + certificate
    return [UInt8(peer.count >> 8), UInt8(peer.count & 0xff)] + peer
  }

  // MARK: Devices

  private func open(_ client: UInt8, _ device: TestDevice) throws {
    try open(
      client, listener: 1, protocolName: TestService.courierProtocol,
      certificate: device.certificate.der, first: ConnectedDevice.connectMessage().bytes)
  }

  /// Connects a device, and returns its base token.
  private func connect(_ client: UInt8, _ device: TestDevice) throws -> [UInt8] {
    try open(client, device)
    let response = try #require(try next())
    #expect(response.client == UInt32(client) && response.kind == Self.bytes)
    // A connect response, its status, and the token.
    #expect(response.content.first == 0x08)
    #expect(Array(response.content[5..<9]) == [1, 0, 1, 0])
    #expect(Array(response.content[9..<12]) == [3, 0, 32])
    return Array(response.content[12..<44])
  }

  /// Enables the topic, and returns the app's token.
  private func enable(_ client: UInt8, _ baseToken: [UInt8]) throws -> String {
    let topic = ConnectedDevice.hash(TestDirectory.topic)
    let filter = RawCourierFrame(0x09, (1, baseToken), (2, topic))
    let request = RawCourierFrame(0x11, (1, baseToken), (2, topic), (3, [0, 0]))
    try send(client, Self.bytes, filter.bytes + request.bytes)
    var received: [UInt8] = []
    // The answer to the filter, and that to the request: a status and a token.
    while received.firstRange(of: [0x12]) == nil || received.count < 60 {
      received += try #require(try next()).content
    }
    let answer = try #require(received.firstRange(of: [1, 0, 1, 0, 2, 0, 32]))
    let bytes = Array(received[answer.upperBound..<answer.upperBound + 32])
    guard let token = DeviceToken(bytes: bytes.span) else { throw RawFault.unexpected("no token") }
    return token.hex
  }

  private func acknowledgement(_ notification: [UInt8], _ baseToken: [UInt8]) throws -> [UInt8] {
    // Field 4 has the notification's id, four bytes.
    let id = try #require(notification.firstRange(of: [4, 0, 4]))
    return RawCourierFrame(
      0x0b, (1, baseToken),
      (4, Array(notification[id.upperBound..<id.upperBound + 4])), (8, [0])
    ).bytes
  }

  /// Pushes to the token what is to be stored. Returns its notification, and what waits for the response.
  private func push(_ token: String, from pusher: QuietPusher) throws -> (Frame, UInt32) {
    let stream = try pusher.client.request(
      pusher.headers(token).setting("apns-expiration", "\(TestDirectory.nowSeconds + 3600)"),
      body: TestService.payload)
    return (try #require(try next()), stream)
  }

  @Test("A device is connected, gets a push, and what it acknowledges while its node stops counts")
  func device() throws {
    let base = try connect(7, service.directory.device())
    let token = try enable(7, base)
    let pusher = try QuietPusher(service)
    let (push, stream) = try push(token, from: pusher)
    #expect(push.client == 7 && push.content.first == 0x0a)
    // Its node stops: what is in flight may still be acknowledged, and then the device is told.
    try send(7, Self.stopping)
    try send(7, Self.bytes, acknowledgement(push.content, base))
    let goodbye = try frames(until: Self.finished)
    #expect(goodbye.first { $0.kind == Self.bytes }?.content.first == 0x80)
    #expect(try pusher.client.response(to: stream).status == 200)
    try waitUntil("it to be counted") { service.service.counts()[.delivered] == 1 }
    try send(7, Self.finished)
    try send(7, Self.ended)
    #expect(try next() == Frame(client: 7, kind: Self.ended, content: []))
  }

  // MARK: The next node

  /// Goes on as `client` with a device that was another client.
  private func resume(_ client: UInt8, _ state: [UInt8: [UInt8]]) throws {
    var content = Self.peer(1, TestService.courierProtocol, [])
    for (part, bytes) in state.sorted(by: { $0.key < $1.key }) {
      content += [part, 0, UInt8(bytes.count >> 8), UInt8(bytes.count & 0xff)] + bytes
    }
    try send(client, Self.resume, content)
  }

  @Test("The next node goes on with a device, which learns nothing of it")
  func resumed() throws {
    let base = try connect(7, service.directory.device())
    let token = try enable(7, base)
    // The device saves battery from now on, and says that it speaks each ten minutes.
    let sent = RawCourierFrame(0x14, (1, [2])).bytes + RawCourierFrame(0x0c, (5, [0, 10])).bytes
    try send(7, Self.bytes, sent)
    #expect(try next()?.content.first == 0x0d)
    try send(7, Self.ended)
    #expect(try next() == Frame(client: 7, kind: Self.ended, content: []))
    let state = try #require(states[7])
    #expect(state.keys.sorted() == [1, 2, 3])
    // Power and silence: twice ten minutes, and one.
    #expect(state[3] == [2, 0, 0, 0x04, 0xec])
    try resume(8, state)
    #expect(try next() == Frame(client: 8, kind: 3, content: []))
    // Nothing waits for it.
    #expect(try next()?.content.first == 0x0e)
    let pusher = try QuietPusher(service)
    _ = try pusher.client.request(pusher.headers(token), body: TestService.payload)
    let push = try #require(try next())
    #expect(push.client == 8 && push.content.first == 0x0a)
    let acknowledgement = try acknowledgement(push.content, base)
    try send(8, Self.bytes, acknowledgement)
    try waitUntil("it to be counted") { service.service.counts()[.delivered] == 1 }
    // Half a frame is not dealt with.
    try send(8, Self.bytes, Array(RawCourierFrame(0x0c).bytes + [0x0c, 0]))
    #expect(try next()?.content.first == 0x0d)
    _ = try connect(9, service.directory.device())
    #expect(handledBytes[8] == acknowledgement.count + RawCourierFrame(0x0c).bytes.count)
  }

  @Test("The node that stops releases devices, and takes no further one")
  func released() throws {
    let base = try connect(7, service.directory.device())
    let token = try enable(7, base)
    let pusher = try QuietPusher(service)
    let (push, stream) = try push(token, from: pusher)
    // It is stored.
    #expect(try pusher.client.response(to: stream).status == 200)
    let stop = StopThread(service)
    #expect(try next() == Frame(client: 0, kind: Self.stopping, content: []))
    // What is in flight may still be acknowledged.
    #expect(try link.isQuiet())
    try send(7, Self.bytes, acknowledgement(push.content, base))
    #expect(try next() == Frame(client: 7, kind: Self.released, content: []))
    try resume(8, #require(states[7]))
    #expect(try next() == Frame(client: 8, kind: Self.released, content: []))
    link.reset()
    stop.join()
  }

  @Test("A device that has connected again since, or is not to be trusted any more, ends")
  func notResumed() throws {
    let device = try service.directory.device()
    _ = try enable(1, connect(1, device))
    let state = try #require(states[1])
    // A goodbye, and no connect response, which it would take for another connection's.
    try resume(2, state)
    let goodbye = try frames(until: Self.finished).filter { $0.client == 2 }
    #expect(goodbye.map(\.content.first) == [nil, 0x80, nil])
    try send(1, Self.ended)
    try waitUntil("it to be gone") { service.service.connectionCount() <= 1 }
    try service.directory.revoke(device.identity)
    service.service.reload()
    try resume(3, state)
    var last: [UInt8] = []
    while let frame = try next(), frame != Frame(client: 3, kind: Self.finished, content: []) {
      if frame.client == 3 { last = frame.content }
    }
    #expect(last.first == 0x80)
    #expect(String(decoding: last, as: UTF8.self).contains("revoked"))
  }

  @Test("Many clients share a link, and one that ends or makes no sense disturbs no other")
  func many() throws {
    let devices = try (1...5).map { _ in try service.directory.device() }
    let bases = try zip(devices, 1...5 as ClosedRange<UInt8>).map { try connect($1, $0) }
    // A frame that no device may send, one of a client that there is not, and a cut.
    try send(1, Self.bytes, [0xff, 0xff, 0xff, 0xff, 0xff])
    #expect(try frames(until: Self.finished).allSatisfy { $0.client == 1 })
    try send(99, Self.bytes, [1, 2, 3])
    try send(2, Self.ended)
    #expect(try next() == Frame(client: 2, kind: Self.ended, content: []))
    for client in 3...5 as ClosedRange<UInt8> { _ = try enable(client, bases[Int(client) - 1]) }
    try send(1, Self.ended)
    try waitUntil("the others to be left") { service.service.connectionCount() == 3 }
    // A newer connection takes a device over.
    try open(6, devices[2])
    var missing: Set<UInt32> = [3, 6]
    while !missing.isEmpty {
      let frame = try #require(try next())
      #expect(frame.client != 6 || frame.content.first == 0x08)
      if frame.client == 6 || frame.kind == Self.finished { missing.remove(frame.client) }
    }
  }

  @Test("If the link ends, its clients are gone")
  func linkEnds() throws {
    for client in 1...3 as ClosedRange<UInt8> {
      _ = try connect(client, service.directory.device())
    }
    try waitUntil("they to be known") { service.service.connectionCount() == 3 }
    link.reset()
    try waitUntil("they to be gone") { service.service.connectionCount() == 0 }
  }

  @Test("A client of a listener that is not open ends, and the link goes on")
  func noListener() throws {
    // A gateway.
    try open(1, listener: 2, certificate: [])
    #expect(try next() == Frame(client: 1, kind: Self.ended, content: []))
    _ = try connect(2, service.directory.device())
  }

  @Test(
    "What makes no sense on the link ends it, and no other",
    arguments: [
      // No kind 13; a description that is cut; one of a listener that there is not; a grant of three bytes; what only
      // the other side says; a state without an identity, and one that is cut.
      [0, 0, 0, 1, 13, 0, 0, 0], [0, 0, 0, 1, 2, 0, 0, 1, 0],
      [0, 0, 0, 2, 2, 0, 0, 13, 0, 11, 9, 0, 0, 4, 127, 0, 0, 1, 0, 1, 0],
      [0, 0, 0, 1, 5, 0, 0, 3, 0, 0, 1], [0, 0, 0, 1, 1, 0, 0, 2, 0, 1],
      [0, 0, 0, 2, 12, 0, 0, 17, 0, 11, 1, 0, 0, 4, 127, 0, 0, 1, 0, 1, 0, 2, 0, 0, 0],
      [0, 0, 0, 2, 12, 0, 0, 17, 0, 11, 1, 0, 0, 4, 127, 0, 0, 1, 0, 1, 0, 1, 0, 0, 9],
    ] as [[UInt8]])
  func nonsense(_ bytes: [UInt8]) throws {
    let bystanders = try Bystanders(service)
    let count = service.service.connectionCount()
    _ = try connect(1, service.directory.device())
    try link.send(bytes)
    _ = try link.receiveAll()
    try waitUntil("its clients to be gone") { service.service.connectionCount() == count }
    try bystanders.expectUndisturbed()
  }

  @Test("A client whose node grants nothing gets no more than may be under way, and then the rest")
  func window() throws {
    let rows = FeedbackBench.rows(4000)
    var group = store.makeGroup()
    for row in rows { group.putFeedback(row, in: FeedbackBench.list, replacing: nil) }
    store.commit(group) { _ in }
    try waitUntil("the rows are stored") {
      try store.feedbackTime(of: rows[3999].token, in: FeedbackBench.list) != nil
    }
    try open(1, listener: 3, certificate: reader())
    var received: [UInt8] = []
    while received.count < Limits.linkClientBytes { received += try #require(try next()).content }
    // One more record at the most.
    #expect(received.count < Limits.linkClientBytes + 4096)
    _ = try connect(2, service.directory.device())
    #expect(try link.isQuiet())
    while received.count < 4000 * 38 {
      try send(1, Self.credit, [0, 0, 0x10, 0])
      received += try #require(try next()).content
    }
    #expect(try RawFeedbackTuple.list(received).count == 4000)
  }

  @Test("While the link is full its clients wait, and then all of them get everything")
  func fullLink() throws {
    let (devices, pushes) = (60 as UInt8, 20)
    let pusher = try QuietPusher(service)
    let payload = Array(#"{"aps":{"alert":"\#(String(repeating: "x", count: 4000))"}}"#.utf8)
    var tokens: [String] = []
    for client in 1...devices {
      tokens.append(try enable(client, connect(client, service.directory.device())))
    }
    for _ in 0..<pushes {
      for token in tokens {
        _ = try pusher.client.request(pusher.headers(token), body: payload)
      }
    }
    // More than the system keeps for a connection waits for the link.
    usleep(500_000)
    var counts: [UInt32: Int] = [:]
    while counts.values.reduce(0, +) < Int(devices) * pushes {
      let frame = try #require(try next())
      counts[frame.client, default: 0] += Self.notificationCount(frame.content)
      let count = UInt16(frame.content.count)
      try send(UInt8(frame.client), Self.credit, [0, 0, UInt8(count >> 8), UInt8(count & 0xff)])
    }
    #expect(counts.count == Int(devices) && counts.values.allSatisfy { $0 == pushes })
  }

  /// How many of the frames have notifications.
  private static func notificationCount(_ bytes: [UInt8]) -> Int {
    var (count, offset) = (0, 0)
    while offset < bytes.count {
      if bytes[offset] == 0x0a { count += 1 }
      offset += 5 + bytes[offset + 1..<offset + 5].reduce(0) { $0 << 8 | Int($1) }
    }
    return count
  }

  // MARK: Feedback

  private func reader() throws -> [UInt8] {
    let chain = try service.directory.providerIdentity().certificateChainPEM
    return try Certificate(pem: String(decoding: chain, as: UTF8.self)).der
  }

  /// How a reader of feedback ends, as its node tells.
  enum ReaderEnd: CaseIterable {
    /// It has everything.
    case confirmed
    /// It was cut off.
    case cut
    /// The same before the list has been sent to its end.
    case early
    /// Its node was killed, or its link.
    case reset
  }

  @Test(
    "A list of feedback is read only if the reader's node says so", arguments: ReaderEnd.allCases)
  func feedback(_ end: ReaderEnd) throws {
    let row = FeedbackBench.rows(1)[0]
    var group = store.makeGroup()
    group.putFeedback(row, in: FeedbackBench.list, replacing: nil)
    store.commit(group) { _ in }
    try waitUntil("the row is stored") {
      try store.feedbackTime(of: row.token, in: FeedbackBench.list) != nil
    }
    try open(1, listener: 3, certificate: reader())
    if end != .early {
      let list = try frames(until: Self.finished).flatMap(\.content)
      #expect(try RawFeedbackTuple.list(list) == [FeedbackBench.tuple(row)])
    }
    switch end {
    case .confirmed:
      try send(1, Self.finished)
      try send(1, Self.ended)
    case .cut, .early: try send(1, Self.ended)
    case .reset: link.reset()
    }
    if end != .reset { _ = try frames(until: Self.ended) }
    let count = end == .confirmed ? 0 : 1
    try waitUntil("the rows of the list are \(count)") { try rowCount() == count }
    #expect(try rowCount() == count)
  }

  private func rowCount() throws -> Int {
    var rows: [FeedbackRow] = []
    try store.feedbackRows(of: FeedbackBench.list, after: nil, limit: .max, into: &rows)
    return rows.count
  }
}
