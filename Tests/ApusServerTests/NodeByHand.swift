import ApusCore
import ApusLoop
import ApusModel
import ApusTLS
import ApusTesting
import ApusThread
import Testing

/// A node with one worker, which an edge has links for clients to, and whose bytes a test writes.
final class NodeByHand: @unchecked Sendable {
  let address: SocketAddress
  private let loop = EventLoop(name: "node by hand")
  private let listener: Listener
  private let links = Monitor<[HandLink]>([])

  /// - Parameters:
  ///   - beginning: How its links begin, and what it sends then. Of others it takes nothing. In place of this one it
  ///     has links for clients, to worker 0, and says that it has one worker.
  ///   - answer: What it sends for what it gets, on a link that has begun.
  init(
    _ identity: TLSIdentity, beginning: LinkBeginning = .clients,
    answer: @escaping @Sendable ([UInt8]) -> [UInt8] = { _ in [] }
  ) throws {
    let context = try TLSContext(
      server: TLSServerConfiguration(identity: identity, applicationProtocols: ["apus-link/3"]))
    let (loop, links) = (loop, links)
    listener = try Listener(loop: loop, address: .loopbackIPv4(port: 0)) { descriptor, _ in
      guard let socket = try? Socket(adopting: descriptor, loop: loop),
        let tls = try? TLSConnection(context: context)
      else { return }
      // The socket keeps it. Links for notifications are not greeted.
      _ = HandLink(socket, tls, beginning, answer) { link in links.notify { $0.append(link) } }
    }
    address = try #require(listener.localAddress)
    loop.start()
  }

  deinit { loop.stop() }

  /// How many links for clients have begun.
  var linkCount: Int { links.withLock { $0.count } }

  /// Sends bytes on the last link, before what it answers to anything that comes later.
  func send(_ bytes: [UInt8]) {
    let sent = Monitor<Bool?>(nil)
    loop.perform { [links] in
      links.withLock { $0.last }?.send(bytes)
      sent.notify { $0 = true }
    }
    _ = sent.take()
  }

  /// Cuts the last link off.
  func cut() { loop.perform { [links] in links.withLock { $0.last }?.cut() } }

  /// Waits until the last link has brought so many bytes that were not taken, and takes them.
  func take(_ count: Int) throws -> [UInt8] {
    var bytes: [UInt8] = []
    try waitUntil("\(count) bytes on the link") {
      bytes =
        links.withLock { $0.last }?.received.withLock { received in
          guard received.count >= count else { return [] }
          defer { received.removeFirst(count) }
          return Array(received[..<count])
        } ?? []
      return bytes.count == count
    }
    return bytes
  }
}

struct LinkBeginning: Sendable {
  var purpose: [UInt8]
  var greeting: [UInt8]

  static let clients = LinkBeginning(
    purpose: [2, 0, 1, 0, 0], greeting: [0, 0, 0, 0, 1, 0, 0, 2, 0, 1])
}

private final class HandLink: SocketHandler, @unchecked Sendable {
  private let socket: Socket
  private let tls: TLSConnection
  private let beginning: LinkBeginning
  private let answer: @Sendable ([UInt8]) -> [UInt8]
  private let begun: (HandLink) -> Void
  private let buffers = TLSBuffers()
  private var unsent = OutputQueue()
  private var isGreeted = false
  private var input = [UInt8](repeating: 0, count: 65_536)
  /// What came behind the link's purpose.
  let received = Monitor<[UInt8]>([])

  init(
    _ socket: Socket, _ tls: TLSConnection, _ beginning: LinkBeginning,
    _ answer: @escaping @Sendable ([UInt8]) -> [UInt8],
    begun: @escaping (HandLink) -> Void
  ) {
    (self.socket, self.tls, self.beginning) = (socket, tls, beginning)
    (self.answer, self.begun) = (answer, begun)
    socket.handler = self
    socket.setInterest(reading: true, writing: false)
  }

  func send(_ plaintext: [UInt8]) {
    encrypt(plaintext)
    write()
  }

  func cut() { socket.close() }

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
      case .plaintext(let bytes): unsafe take(Array(bytes))
      case .needsInput: return write()
      case .closedByPeer, .failed: return socket.close()
      }
    }
  }

  private func take(_ bytes: [UInt8]) {
    var bytes = bytes[...]
    if !isGreeted {
      guard bytes.starts(with: beginning.purpose) else { return }
      isGreeted = true
      begun(self)
      encrypt(beginning.greeting)
      bytes = bytes.dropFirst(beginning.purpose.count)
    }
    guard !bytes.isEmpty else { return }
    received.notify { $0 += bytes }
    encrypt(answer(Array(bytes)))
  }

  private func encrypt(_ plaintext: [UInt8]) {
    guard !plaintext.isEmpty else { return }
    unsafe plaintext.withUnsafeBytes { try? unsafe tls.write($0, buffers: buffers) }
  }

  private func write() {
    defer { buffers.removeAllOutput() }
    _ = unsafe unsent.write(buffers.output, to: socket)
    socket.setInterest(reading: true, writing: !unsent.isEmpty)
  }

  func socketWritable() { write() }
}
