import ApusCore
import ApusHTTP2
import ApusLoop
import ApusModel
import ApusTLS

/// The only pump: socket, TLS, protocol, and back.
///
/// A connection has no buffers of its own while it is quiet: it reads into the worker's buffer, OpenSSL decrypts into
/// another, and what the protocol has to say is collected when the worker's turn ends. Only bytes that the socket
/// did not take stay here.
final class Connection: SocketHandler {
  enum Stage {
    case handshaking
    case open
    /// Everything to say has been queued; once it is written our side of the connection is shut.
    case closing
    /// Our side is shut; what the peer still sends is read and thrown away, since a close with unread bytes would
    /// make the kernel send a reset, and that destroys our last words in the peer's buffer.
    case lingering
    case closed
  }

  private enum Driver {
    case none
    case provider(HTTP2Provider)
    case courier(CourierConnection)
  }

  /// Strong for the same reason as the driver's reference: the worker forgets a connection that ends.
  let worker: Worker
  let door: Door
  let slot: Int32
  let generation: UInt32
  let peer: SocketAddress
  let tls: TLSConnection
  /// When it was accepted, on the clock that all loops share: of two connections of a device the later one is newer.
  let acceptedMilliseconds: UInt64
  private(set) var stage: Stage
  private let socket: Socket
  private var driver = Driver.none
  /// Ciphertext that the socket did not take.
  private var unsent = OutputQueue()
  private var isPeerFinished = false
  /// Whether the connection closes as soon as the protocol has said its last.
  private var isEnding = false
  private var isReadingPaused = false
  /// Whether it stands in the worker's list of connections with something to write.
  var isDirty = false
  /// Second of the worker's clock at which the connection is looked at.
  var deadlineSeconds: UInt64
  /// Second at which the wheel comes to it next.
  var watchedSeconds = UInt64.max

  private static let readsPerTurn = 4
  private static let lingerSeconds: UInt64 = 5

  init(
    worker: Worker, door: Door, slot: Int32, generation: UInt32, descriptor: Int32,
    peer: SocketAddress, tls: TLSConnection, acceptedMilliseconds: UInt64,
    stage: Stage = .handshaking
  ) throws(SocketError) {
    self.worker = worker
    self.door = door
    self.slot = slot
    self.generation = generation
    self.peer = peer
    self.tls = tls
    self.acceptedMilliseconds = acceptedMilliseconds
    self.stage = stage
    deadlineSeconds = worker.nowSeconds + UInt64(Limits.handshakeSeconds)
    socket = try Socket(adopting: descriptor, loop: worker.loop)
    socket.handler = self
    socket.setInterest(reading: true, writing: false)
  }

  var unsentByteCount: Int { unsent.count }

  /// Whether the protocol may queue more output now.
  var mayWrite: Bool { stage == .open && unsentByteCount < Limits.outputHighWaterBytes }

  // MARK: Reading

  func socketReadable() {
    guard stage != .lingering, stage != .closing else { return discardInput() }
    for _ in 0..<Self.readsPerTurn {
      guard stage == .handshaking || stage == .open, !isReadingPaused else { break }
      let buffer = unsafe worker.receiveBuffer
      switch unsafe socket.read(into: buffer) {
      case .bytes(let count):
        unsafe pump(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
        if count < buffer.count { return worker.markDirty(self) }
      case .wouldBlock: return worker.markDirty(self)
      case .endOfStream: return peerFinished()
      case .failed: return abort()
      }
    }
    if stage != .closed { worker.markDirty(self) }
  }

  /// Decrypts `input` and hands the plaintext to the protocol.
  private func pump(_ input: UnsafeRawBufferPointer) {
    let buffers = worker.tlsBuffers
    unsafe tls.provide(input, buffers: buffers)
    while stage == .handshaking || stage == .open {
      switch tls.read(buffers: buffers) {
      case .handshakeCompleted: established()
      case .plaintext(let bytes): unsafe received(bytes)
      case .needsInput:
        writeOutput()
        return
      case .closedByPeer:
        isPeerFinished = true
        writeOutput()
        return peerFinished()
      case .failed(let error): return failed(error)
      }
    }
    writeOutput()
  }

  private func established() {
    stage = .open
    switch door.kind {
    case .provider:
      driver = .provider(HTTP2Provider(self))
      deadlineSeconds = worker.nowSeconds + UInt64(Limits.requestSeconds)
    case .courier:
      guard let courier = CourierConnection(self) else { return close() }
      driver = .courier(courier)
      deadlineSeconds = worker.nowSeconds + UInt64(Limits.courierConnectSeconds)
    case .gateway, .feedback: return close()
    }
    worker.watch(self)
  }

  /// Takes up a device's connection that another worker accepted.
  func resume(_ courier: CourierConnection) {
    driver = .courier(courier)
    worker.watch(self)
  }

  private func received(_ bytes: UnsafeRawBufferPointer) {
    switch driver {
    case .provider(let provider): unsafe provider.receive(bytes)
    case .courier(let courier): unsafe courier.receive(bytes)
    case .none: break
    }
  }

  private func failed(_ error: TLSError) {
    worker.log(
      .info, "tls failed", .text("peer", peer.description), .text("door", door.name),
      .text("reason", error.description))
    // What OpenSSL has to say about it, the alert, is still to be sent.
    writeOutput()
    driverClosed()
    stage = .closing
    worker.markDirty(self)
  }

  private func peerFinished() {
    isPeerFinished = true
    guard stage == .open else { return abort() }
    switch driver {
    case .provider(let provider): provider.peerFinished()
    case .courier, .none: close()
    }
    worker.markDirty(self)
  }

  private func discardInput() {
    for _ in 0..<Self.readsPerTurn {
      switch unsafe socket.read(into: worker.receiveBuffer) {
      case .bytes: continue
      case .wouldBlock: return
      case .endOfStream, .failed: return abort()
      }
    }
  }

  // MARK: Writing

  /// Encrypts plaintext; the ciphertext leaves with the next `writeOutput`.
  func encrypt(_ plaintext: borrowing [UInt8], count: Int) {
    guard stage == .open, count > 0 else { return }
    do {
      try unsafe plaintext.withUnsafeBytes { bytes in
        try unsafe tls.write(
          UnsafeRawBufferPointer(rebasing: bytes[..<count]), buffers: worker.tlsBuffers)
      }
    } catch {
      stage = .closing
    }
  }

  /// Lets the protocol say what it has to say; called when the worker's turn ends.
  func flush() {
    isDirty = false
    if stage == .open { flushDriver() }
    writeOutput()
    if stage == .closing, unsentByteCount == 0 { shut() }
    let paused = unsentByteCount >= Limits.outputHighWaterBytes
    if paused != isReadingPaused, stage != .closed {
      isReadingPaused = paused
      updateInterest()
    }
  }

  /// Moves the ciphertext of this connection out of the worker's buffer, to the socket as far as it takes it.
  func writeOutput() {
    let buffers = worker.tlsBuffers
    guard buffers.outputCount > 0 else { return }
    defer { buffers.removeAllOutput() }
    guard stage != .closed, stage != .lingering else { return }
    switch unsafe unsent.write(buffers.output, to: socket) {
    case .written, .queued: break
    case .blocked: stalled()
    case .failed: abort()
    }
  }

  private func stalled() {
    updateInterest()
    deadlineSeconds = min(deadlineSeconds, worker.nowSeconds + UInt64(Limits.writeStallSeconds))
    worker.watch(self)
  }

  func socketWritable() {
    let before = unsent.count
    let outcome = unsent.writeWaiting(to: socket)
    if unsent.count < before { touchWrite() }
    switch outcome {
    case .written:
      updateInterest()
      worker.markDirty(self)
    case .queued, .blocked: break
    case .failed: abort()
    }
  }

  private func touchWrite() {
    deadlineSeconds = max(deadlineSeconds, worker.nowSeconds + UInt64(Limits.writeStallSeconds))
  }

  private func updateInterest() {
    guard stage != .closed else { return }
    socket.setInterest(
      reading: !isReadingPaused || stage == .lingering, writing: unsentByteCount > 0)
  }

  // MARK: Time

  /// The deadline came; the connection decides whether it is over or looks again later.
  func deadlineReached() {
    switch stage {
    case .closed: return
    case .handshaking:
      worker.log(
        .info, "handshake timed out", .text("peer", peer.description), .text("door", door.name))
      abort()
    case .closing, .lingering: abort()
    case .open:
      if unsentByteCount > 0 {
        worker.log(.info, "peer does not read", .text("peer", peer.description))
        return abort()
      }
      switch driver {
      case .provider(let provider): provider.deadlineReached()
      case .courier(let courier): courier.deadlineReached()
      case .none: abort()
      }
      worker.markDirty(self)
    }
    if stage != .closed { worker.watch(self) }
  }

  /// Tells the peer's kernel at once what has arrived.
  func acknowledgeNow() { socket.acknowledgeNow() }

  // MARK: Ending

  /// Ends the connection when the turn ends: what the protocol still has to say, close_notify, and our side is shut.
  func close() {
    isEnding = true
    if stage == .handshaking { stage = .closing }
    worker.markDirty(self)
  }

  private func flushDriver() {
    switch driver {
    case .provider(let provider): if provider.flush() { isEnding = true }
    case .courier(let courier): courier.flush()
    case .none: break
    }
    guard isEnding, stage == .open else { return }
    tls.close(buffers: worker.tlsBuffers)
    stage = .closing
    driverClosed()
  }

  private func shut() {
    if isPeerFinished { return abort() }
    stage = .lingering
    socket.shutdownWrite()
    updateInterest()
    deadlineSeconds = worker.nowSeconds + Self.lingerSeconds
    worker.watch(self)
  }

  /// Ends the connection without another word.
  func abort() {
    guard stage != .closed else { return }
    driverClosed()
    stage = .closed
    unsent.removeAll()
    socket.close()
    worker.forget(self)
  }

  private func driverClosed() {
    let ended = driver
    driver = .none
    switch ended {
    case .provider(let provider): provider.connectionClosed()
    case .courier(let courier): courier.connectionClosed()
    case .none: break
    }
  }

  /// Gives the socket up for another worker; this object is over.
  func release() -> Int32 {
    driver = .none
    stage = .closed
    let descriptor = socket.detach()
    worker.forget(self)
    return descriptor
  }

  /// What connections are judged by was replaced.
  func trustChanged() {
    if case .provider(let provider) = driver { provider.trustChanged() }
  }

  /// A newer connection of the same device took this one's place.
  func displace() {
    if case .courier(let courier) = driver { courier.displace() }
  }

  /// Nothing waits for the device behind this connection.
  func nothingStored() {
    if case .courier(let courier) = driver { courier.nothingStored() }
  }

  /// The service stops: the protocol says goodbye in its own way.
  func drain() {
    switch driver {
    case .provider(let provider): provider.drain()
    case .courier(let courier): courier.drain()
    case .none: abort()
    }
    worker.markDirty(self)
  }
}
