import ApusCore
import ApusModel
import ApusTesting
import Testing

/// An edge between a device and nodes that a test plays, byte by byte.
@Suite("An edge gives devices to the next node")
struct NextNodeTests {
  private let service: TestService
  private let nodes: NodesByHand
  private let first: NodeByHand
  private let second: NodeByHand

  private static let pieceByteCount = 65_536

  init() throws {
    service = try TestService(nil, .init { ($0.isBehindEdge, $0.workers) = (true, 1) })
    nodes = try NodesByHand(service)
    first = try NodeByHand(nodes.identity("a"))
    second = try NodeByHand(nodes.identity("b"))
    try setTarget("a", first)
  }

  private func setTarget(_ name: String, _ node: NodeByHand) throws {
    service.service.setLinkTarget((try #require(NodeName(name)), node.address))
  }

  private func frame(_ client: UInt8, _ kind: UInt8, _ content: [UInt8] = []) -> [UInt8] {
    [0, 0, 0, client, kind, UInt8(content.count >> 16), UInt8(content.count >> 8 & 0xff)]
      + [UInt8(content.count & 0xff)] + content
  }

  private func next(_ node: NodeByHand) throws -> (client: UInt8, kind: UInt8, content: [UInt8]) {
    let head = try node.take(8)
    let count = Int(head[6]) << 8 | Int(head[7])
    return (head[3], head[4], try node.take(count))
  }

  /// A device that has sent its connect message, which the node has.
  private func begin(at node: NodeByHand) throws -> RawCourierClient {
    let device = try service.courier(service.directory.device())
    let connect = ConnectedDevice.connectMessage()
    try device.send(connect)
    let open = try next(node)
    #expect(open.kind == 2 && Array(open.content.suffix(connect.bytes.count)) == connect.bytes)
    return device
  }

  private let keepAlive = RawCourierFrame(0x0c)
  private let answer = RawCourierFrame(0x0d)

  /// The same with a connection of which the node has told the edge everything.
  private func connect() throws -> RawCourierClient {
    let device = try begin(at: first)
    first.send(
      frame(1, 3) + frame(1, 9, [1, 10, 11]) + frame(1, 9, [2, 20]) + frame(1, 9, [3, 30])
        // A part in place of the one before.
        + frame(1, 9, [2, 21, 22]) + frame(1, 4, answer.bytes))
    #expect(try device.nextFrame() == answer)
    return device
  }

  /// What a node gets that is to go on with the device.
  private func expectResumed(_ client: UInt8 = 1) throws {
    let resume = try next(second)
    #expect((resume.client, resume.kind) == (client, 12))
    let state: [UInt8] = [1, 0, 0, 2, 10, 11, 3, 0, 0, 1, 30, 2, 0, 0, 2, 21, 22]
    #expect(Array(resume.content.suffix(state.count)) == state)
    // Who it is comes before that, without the certificate: listener, environment, family of its address, protocol.
    let count = Int(resume.content[1])
    #expect(resume.content.count == 2 + count + state.count)
    #expect(Array(resume.content[2...5]) == [1, 0, 0, 4])
    let name = Array(TestService.courierProtocol.utf8)
    #expect(resume.content[..<(2 + count)].reversed().starts(with: ([14] + name).reversed()))
  }

  @Test("With what it has said, and what it has sent that no node has dealt with")
  func lost() throws {
    defer { second.cut() }
    let device = try connect()
    let sent = [keepAlive, RawCourierFrame(0x14, (1, [1])), RawCourierFrame(0x14, (1, [2]))]
    for frame in sent {
      try device.send(frame)
      #expect(try next(first).content == frame.bytes)
    }
    first.send(frame(1, 10, [0, 0, 0, UInt8(sent[0].bytes.count)]) + frame(1, 4, answer.bytes))
    #expect(try device.nextFrame() == answer)
    first.cut()
    try setTarget("b", second)
    try expectResumed()
    // What it sends meanwhile waits.
    try device.send(keepAlive)
    second.send(frame(1, 3))
    var rest = sent[1].bytes + sent[2].bytes
    #expect(try next(second) == (1, 4, rest))
    #expect(try next(second) == (1, 4, keepAlive.bytes))
    rest += keepAlive.bytes
    second.send(frame(1, 10, [0, 0, 0, UInt8(rest.count)]) + frame(1, 4, answer.bytes))
    #expect(try device.nextFrame() == answer)
  }

  @Test("Also if the node that stops releases it, which takes no further one")
  func released() throws {
    defer { second.cut() }
    let device = try connect()
    first.send(frame(0, 7) + frame(1, 11))
    let late = try service.courier(service.directory.device())
    try late.send(ConnectedDevice.connectMessage())
    try device.send(keepAlive)
    try setTarget("b", second)
    try expectResumed()
    #expect(try next(second).kind == 2)
    second.send(frame(1, 3) + frame(1, 4, answer.bytes) + frame(2, 3) + frame(2, 4, answer.bytes))
    #expect(try next(second) == (1, 4, keepAlive.bytes))
    #expect(try device.nextFrame() == answer)
    #expect(try late.nextFrame() == answer)
    #expect(first.linkCount == 1)
  }

  @Test("But not if it has sent more than its edge keeps for the next node")
  func tooMuch() throws {
    let device = try connect()
    let frame = RawCourierFrame(
      0x14, [.init(1, [1]), .init(9, [UInt8](repeating: 0, count: 20_000))])
    var count = 0
    for _ in 0..<4 {
      try device.send(frame)
      while count < frame.bytes.count { count += try next(first).content.count }
      count -= frame.bytes.count
      // All is passed on, and nothing dealt with.
      let credit = UInt16(frame.bytes.count)
      first.send(self.frame(1, 5, [0, 0, UInt8(credit >> 8), UInt8(credit & 0xff)]))
    }
    first.cut()
    try setTarget("b", second)
    #expect(try device.nextFrame() == nil)
  }

  @Test("But not in the middle of a message, or before the device has said what it wants")
  func ended() throws {
    let inside = try connect()
    // A message that takes more than a frame of the link.
    let long = RawCourierFrame(0x0d, [.init(9, [UInt8](repeating: 0, count: 65_530))]).bytes
    first.send(frame(1, 4, Array(long[..<Self.pieceByteCount])))
    #expect(try next(first).kind == 5)
    let early = try begin(at: first)
    first.send(frame(2, 3) + frame(2, 9, [1, 10]) + frame(2, 4, answer.bytes))
    #expect(try early.nextFrame() == answer)
    first.cut()
    try setTarget("b", second)
    #expect(throws: RawFault.self) { try inside.nextFrame() }
    #expect(try early.nextFrame() == nil)
  }
}
