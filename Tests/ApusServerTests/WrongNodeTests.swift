import ApusCore
import ApusLoop
import ApusModel
import ApusTLS
import ApusTesting
import Synchronization
import Testing

/// A node that answers the clients' links of an edge with bytes that it should not send.
@Suite("An edge and a node that makes no sense")
struct WrongNodeTests {
  private let service: TestService
  private let nodes: NodesByHand

  init() throws {
    service = try TestService(nil, .init { ($0.isBehindEdge, $0.workers) = (true, 1) })
    nodes = try NodesByHand(service)
  }

  @Test("Its links end, in the middle of what came, and clients go on with the next node")
  func wrong() throws {
    let node = try #require(TestService.node)
    let address = try #require(service.linkAddress)
    // A frame of no kind, and more than is decrypted at a time.
    let wrong = try WrongNode(
      nodes.identity("a"), [0, 0, 0, 1, 99, 0, 0, 0] + [UInt8](repeating: 7, count: 60_000))
    service.service.setLinkTarget((node, wrong.address))
    let provider = try service.provider()
    let headers = try service.pushHeaders(
      to: Shared.absentToken, authorization: service.authorization())
    #expect(try provider.exchange(headers, body: TestService.payload).status == 400)
    let waiting = try (0..<4).map { _ in
      let client = try service.courier(service.directory.device())
      try client.send(ConnectedDevice.connectMessage())
      return client
    }
    try waitUntil("it to have answered") { wrong.answers.value.load(ordering: .relaxed) > 1 }
    // Other connections of the worker are read before it opens a link again.
    let stream = try provider.request(headers, body: TestService.payload)
    service.service.setLinkTarget((node, address))
    #expect(try provider.response(to: stream).status == 400)
    for client in waiting { #expect(try client.expect(0x08)[1] == [0]) }
  }
}

private final class WrongNode: @unchecked Sendable {
  let address: SocketAddress
  private let loop = EventLoop(name: "wrong node")
  private let listener: Listener
  /// How many times it has sent what makes no sense.
  let answers = Counter()

  init(_ identity: TLSIdentity, _ bytes: [UInt8]) throws {
    let context = try TLSContext(
      server: TLSServerConfiguration(identity: identity, applicationProtocols: ["apus-link/1"]))
    let (loop, answers) = (loop, answers)
    listener = try Listener(loop: loop, address: .loopbackIPv4(port: 0)) { descriptor, _ in
      guard let socket = try? Socket(adopting: descriptor, loop: loop),
        let tls = try? TLSConnection(context: context)
      else { return }
      // The socket keeps it.
      _ = WrongLink(socket, tls, bytes, answers)
    }
    address = try #require(listener.localAddress)
    loop.start()
  }

  deinit { loop.stop() }
}

private final class Counter: Sendable {
  let value = Atomic(0)
}

private final class WrongLink: SocketHandler {
  private let socket: Socket
  private let tls: TLSConnection
  private let wrong: [UInt8]
  private let answers: Counter
  private let buffers = TLSBuffers()
  private var unsent = OutputQueue()
  private var isGreeted = false
  private var input = [UInt8](repeating: 0, count: 65_536)

  init(_ socket: Socket, _ tls: TLSConnection, _ wrong: [UInt8], _ answers: Counter) {
    (self.socket, self.tls, self.wrong, self.answers) = (socket, tls, wrong, answers)
    socket.handler = self
    socket.setInterest(reading: true, writing: false)
  }

  func socketReadable() {
    let count = unsafe input.withUnsafeMutableBytes { buffer -> Int in
      if case .bytes(let count) = unsafe socket.read(into: buffer) { count } else { 0 }
    }
    guard count > 0 else { return socket.close() }
    unsafe input.withUnsafeBytes { bytes in
      unsafe tls.provide(UnsafeRawBufferPointer(rebasing: bytes[..<count]), buffers: buffers)
    }
    while true {
      switch tls.read(buffers: buffers) {
      case .handshakeCompleted: continue
      case .plaintext(let bytes): unsafe received(bytes)
      case .needsInput: return write()
      case .closedByPeer, .failed: return socket.close()
      }
    }
  }

  private func received(_ bytes: UnsafeRawBufferPointer) {
    if isGreeted { return answer(wrong) }
    // The purpose of the link: clients. The node has one worker.
    guard unsafe bytes.first == 2 else { return }
    isGreeted = true
    answer([0, 0, 0, 0, 1, 0, 0, 2, 0, 1])
  }

  private func answer(_ plaintext: [UInt8]) {
    if plaintext.count > 100 { answers.value.add(1, ordering: .relaxed) }
    unsafe plaintext.withUnsafeBytes { try? unsafe tls.write($0, buffers: buffers) }
  }

  private func write() {
    defer { buffers.removeAllOutput() }
    _ = unsafe unsent.write(buffers.output, to: socket)
  }

  func socketWritable() {}
}
