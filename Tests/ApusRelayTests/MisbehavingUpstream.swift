import ApusLoop
import ApusTLS
import ApusTesting
import ApusTrust
import Synchronization

/// An upstream service on real sockets that misbehaves when it is told to, and else accepts everything.
final class MisbehavingUpstream: @unchecked Sendable {
  private struct State {
    /// What arrived, by connection.
    var arrivals: [[MisbehavingPeer.Arrival]] = []
    /// The connection that answered last.
    var serving: Int?
    /// Connections whose client has not acknowledged all SETTINGS.
    var unsettled: Set<Int> = []
  }

  let authorityPEM: String
  private(set) var port: UInt16 = 0
  private let state = Mutex(State())
  private let loop = EventLoop(name: "misbehaving")
  private let context: TLSContext

  // Confined to the loop.

  private var listener: Listener?
  private var connections: [Connection] = []
  /// For the next connection.
  private var plan: (Misbehaviour, Misbehaviour.Moment)?

  init() throws {
    let now = EventLoop.wallClockMilliseconds() / 1000
    let validity = Validity(now: now, days: 1)
    let authority = try CertificateAuthority.create(commonName: "Upstream", validity: validity)
    authorityPEM = authority.certificate.pem
    let key = try PrivateKey.generateP256()
    let certificate = try authority.issueServer(
      names: ["127.0.0.1"], publicKey: key.publicKey, validity: validity)
    context = try TLSContext(
      server: TLSServerConfiguration(
        identity: TLSIdentity(certificate, key), applicationProtocols: ["h2"]))
    let listener = try Listener(loop: loop, address: .loopbackIPv4(port: 0)) {
      [weak self] descriptor, _ in self?.accept(descriptor)
    }
    self.listener = listener
    port = listener.localAddress?.port ?? 0
    loop.start()
  }

  deinit { loop.stop() }

  private func accept(_ descriptor: Int32) {
    guard let socket = try? Socket(adopting: descriptor, loop: loop),
      let tls = try? TLSConnection(context: context)
    else { return }
    let peer = plan.map { MisbehavingPeer($0.0, $0.1) } ?? MisbehavingPeer()
    plan = nil
    let index = state.withLock { state in
      state.arrivals.append([])
      return state.arrivals.count - 1
    }
    connections.append(
      Connection(socket, tls, peer) { [weak self] in self?.note($0, $1, of: index) })
  }

  private func note(_ peer: MisbehavingPeer, _ formerAnswers: Int, of index: Int) {
    state.withLock { state in
      state.arrivals[index] = peer.arrivals
      if peer.answerCount > formerAnswers { state.serving = index }
      if peer.isSettled {
        state.unsettled.remove(index)
      } else {
        state.unsettled.insert(index)
      }
    }
  }

  // MARK: The test's side

  /// Ends all connections; the next one misbehaves.
  func renew(_ misbehaviour: Misbehaviour, _ moment: Misbehaviour.Moment) async throws {
    try await perform {
      $0.plan = (misbehaviour, moment)
      for connection in $0.connections { connection.end() }
    }
  }

  /// Misbehaves on the connection that answered last, with the requests that come next.
  func prepare(_ misbehaviour: Misbehaviour, _ moment: Misbehaviour.Moment) async throws {
    guard let index = state.withLock({ $0.serving }) else {
      throw RawFault.unexpected("no connection has served anything")
    }
    state.withLock { _ = $0.unsettled.insert(index) }
    try await perform { $0.connections[index].change { $0.prepare(misbehaviour, moment) } }
    try await eventually { state.withLock { !$0.unsettled.contains(index) } }
  }

  /// Misbehaves where that was prepared, now.
  func misbehave() async throws {
    try await perform {
      for connection in $0.connections { connection.change { $0.misbehave() } }
    }
  }

  /// Runs it on the loop, and waits for it.
  private func perform(_ body: @escaping @Sendable (MisbehavingUpstream) -> Void) async throws {
    let isDone = Flag()
    loop.perform { [unowned self] in
      body(self)
      isDone.value.store(true, ordering: .releasing)
    }
    try await eventually { isDone.value.load(ordering: .acquiring) }
  }

  private final class Flag: Sendable {
    let value = Atomic(false)
  }

  /// How often the request with this id arrived whole, and was not refused.
  func arrivals(_ id: String) -> Int {
    state.withLock { $0.arrivals.joined().count { $0.id == id && !$0.isRefused } }
  }
}

/// Waits for what others bring about, and lets other tests run in the meantime.
func eventually(_ condition: () throws -> Bool, line: Int = #line) async throws {
  let deadline = ContinuousClock.now + .seconds(20)
  // The condition may cost more than what it waits for.
  var pause = 1
  while try !condition() {
    guard ContinuousClock.now < deadline else {
      throw RawFault.unexpected("what line \(line) waits for did not come")
    }
    try await Task.sleep(for: .milliseconds(pause))
    pause = min(8, 2 * pause)
  }
}

private final class Connection: SocketHandler {
  private let socket: Socket
  private let tls: TLSConnection
  private let buffers = TLSBuffers()
  private var unsent = OutputQueue()
  private var peer: MisbehavingPeer
  /// Called with the answers that there were before.
  private let changed: (MisbehavingPeer, Int) -> Void
  private var input = [UInt8](repeating: 0, count: 65_536)
  private var hasEnded = false

  init(
    _ socket: Socket, _ tls: TLSConnection, _ peer: MisbehavingPeer,
    changed: @escaping (MisbehavingPeer, Int) -> Void
  ) {
    (self.socket, self.tls, self.peer, self.changed) = (socket, tls, peer, changed)
    socket.handler = self
    socket.setInterest(reading: true, writing: false)
  }

  func change(_ body: (inout MisbehavingPeer) -> Void) {
    let former = peer.answerCount
    body(&peer)
    changed(peer, former)
    write()
  }

  /// FIN, without GOAWAY; it still reads.
  func end() {
    guard !hasEnded, socket.isOpen else { return }
    hasEnded = true
    socket.shutdownWrite()
  }

  func socketReadable() {
    let count = input.withUnsafeMutableBytes { buffer -> Int in
      if case .bytes(let count) = socket.read(into: buffer) { count } else { 0 }
    }
    guard count > 0 else { return socket.close() }
    if hasEnded { return }
    input.withUnsafeBytes { bytes in
      tls.provide(UnsafeRawBufferPointer(rebasing: bytes[..<count]), buffers: buffers)
    }
    while true {
      switch tls.read(buffers: buffers) {
      case .handshakeCompleted: break
      case .plaintext(let bytes): change { $0.receive(Array(bytes)) }
      case .needsInput: return write()
      case .closedByPeer, .failed: return socket.close()
      }
    }
  }

  func socketWritable() {
    guard unsent.writeWaiting(to: socket) == .written else { return }
    socket.setInterest(reading: true, writing: false)
    if peer.isEnding { end() }
  }

  private func write() {
    guard socket.isOpen else { return }
    if tls.isEstablished {
      peer.takeOutput().withUnsafeBytes { try? tls.write($0, buffers: buffers) }
    }
    if unsent.write(buffers.output, to: socket) == .blocked {
      socket.setInterest(reading: true, writing: true)
    }
    buffers.removeAllOutput()
    if peer.isEnding, unsent.isEmpty { end() }
  }
}
