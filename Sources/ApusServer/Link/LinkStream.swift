import ApusCore
import ApusLoop
import ApusModel
import ApusTLS

/// Who uses a connection to another node.
protocol LinkStreamUser: AnyObject {
  /// The handshake is completed: the other node is the one that it should be.
  func linkOpened()
  /// Plaintext, in memory that the next call to TLS on this thread overwrites.
  func linkReceived(_ bytes: Span<UInt8>)
  /// The system has taken what it would not take before.
  func linkDrained()
  /// The other node has said all. It waits for the end of this side.
  func linkFinished()
  /// The connection was lost, or could not be made.
  func linkLost(_ fault: String)
}

/// A connection to another node: socket and TLS. Confined to its worker.
///
/// It keeps itself and its user alive until it has ended.
final class LinkStream: SocketHandler, @unchecked Sendable {
  private enum Stage {
    case connecting
    case shakingHands
    case open
    case ended
  }

  private let context: WorkerContext
  private let target: LinkTarget
  private let tls: TLSConnection
  private let socket: Socket
  private var user: (any LinkStreamUser)?
  private var stage = Stage.connecting
  private var unsent = OutputQueue()
  private var isPeerFinished = false
  private var isFinished = false
  /// Until the handshake is completed.
  private var timer: LoopTimer?

  private static let readsPerTurn = 4

  /// Begins to connect.
  ///
  /// - Parameters:
  ///   - silenceMilliseconds: How long the other machine may leave bytes unacknowledged before the connection counts as
  ///     lost. A node whose network is cut has its address and its lease all the same.
  ///   - keepAliveSeconds: After so long without a byte the other machine is asked; nil: never.
  init(
    _ target: LinkTarget, _ context: WorkerContext, silenceMilliseconds: UInt64,
    keepAliveSeconds: Int? = nil, user: any LinkStreamUser
  ) throws {
    self.target = target
    self.context = context
    self.user = user
    tls = try TLSConnection(context: target.context, session: target.session)
    socket = try Socket.connect(to: target.address, loop: context.loop)
    socket.setUserTimeout(milliseconds: Int(silenceMilliseconds))
    if let keepAliveSeconds { socket.setKeepAlive(idleSeconds: keepAliveSeconds) }
    socket.handler = self
    socket.setInterest(reading: false, writing: true)
    let timer = LoopTimer(loop: context.loop) { [unowned self] in lost("no answer in time") }
    timer.start(afterMilliseconds: Limits.linkHandshakeMilliseconds)
    self.timer = timer
  }

  var isOpen: Bool { stage == .open }

  /// Whether it leads to the node that decides now, or none does.
  func isCurrent(_ edge: Edge) -> Bool { edge.target.map { $0.isSamePlace(as: target) } ?? true }

  /// Whether more output is welcome.
  var mayWrite: Bool { isOpen && !isFinished && unsent.count < Limits.outputHighWaterBytes }

  // MARK: Reading

  private var mayRead: Bool {
    (stage == .shakingHands || isOpen) && !isPeerFinished
  }

  private func updateInterest() {
    guard stage != .ended else { return }
    socket.setInterest(
      reading: mayRead,
      writing: stage == .connecting || !unsent.isEmpty)
  }

  func socketReadable() {
    for _ in 0..<Self.readsPerTurn where mayRead {
      let buffer = unsafe context.receiveBuffer
      switch unsafe socket.read(into: buffer) {
      case .bytes(let count):
        unsafe decrypt(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
        if count < buffer.count { return }
      case .wouldBlock: return
      case .endOfStream: return lost("the connection ended")
      case .failed(let code): return lost("the connection failed: errno \(code)")
      }
    }
  }

  private func decrypt(_ ciphertext: UnsafeRawBufferPointer) {
    let buffers = context.tlsBuffers
    unsafe tls.provide(ciphertext, buffers: buffers)
    while stage != .ended {
      switch tls.read(buffers: buffers) {
      case .plaintext(let bytes):
        keepSession()
        user?.linkReceived(unsafe Span<UInt8>(_unsafeBytes: bytes))
      case .handshakeCompleted:
        stage = .open
        timer = nil
        user?.linkOpened()
      case .needsInput: return writeOutput()
      case .closedByPeer:
        writeOutput()
        return peerFinished()
      case .failed(let error):
        writeOutput()
        return lost(error.description)
      }
    }
    // The user has ended it, or a write has failed.
    buffers.dropInput()
  }

  private func peerFinished() {
    guard stage != .ended else { return }
    isPeerFinished = true
    updateInterest()
    user?.linkFinished()
  }

  private var hasSession = false

  /// The ticket comes before the first plaintext.
  private func keepSession() {
    guard !hasSession else { return }
    hasSession = true
    if let session = tls.session { target.session = session }
    tls.compact()
  }

  // MARK: Writing

  func write(_ plaintext: borrowing [UInt8]) {
    guard isOpen, !isFinished, plaintext.count > 0 else { return }
    do {
      try unsafe plaintext.withUnsafeBytes { bytes in
        try unsafe tls.write(bytes, buffers: context.tlsBuffers)
      }
    } catch {
      return lost("\(error)")
    }
    writeOutput()
  }

  private func writeOutput() {
    let buffers = context.tlsBuffers
    guard stage != .ended, buffers.outputCount > 0 else { return }
    defer { buffers.removeAllOutput() }
    switch unsafe unsent.write(buffers.output, to: socket) {
    case .written, .queued: return
    case .blocked: updateInterest()
    case .failed(let code): lost("the connection failed: errno \(code)")
    }
  }

  func socketWritable() {
    if stage == .connecting { return connected() }
    switch unsent.writeWaiting(to: socket) {
    case .written:
      updateInterest()
      user?.linkDrained()
    case .queued, .blocked: return
    case .failed(let code): lost("the connection failed: errno \(code)")
    }
  }

  private func connected() {
    let code = socket.connectError()
    guard code == 0 else { return lost("connecting failed: errno \(code)") }
    stage = .shakingHands
    updateInterest()
    tls.startHandshake(buffers: context.tlsBuffers)
    writeOutput()
  }

  // MARK: The end

  /// Says that nothing more comes.
  private func finish() {
    guard isOpen, !isFinished else { return }
    isFinished = true
    tls.close(buffers: context.tlsBuffers)
    writeOutput()
  }

  /// Says that nothing more comes, and closes, after this turn: the worker's buffers may be in use. The user hears no
  /// more.
  func close() {
    user = nil
    guard stage != .ended else { return }
    context.loop.perform { [self] in
      finish()
      end()
    }
  }

  /// Resets the connection: the other node takes it as cut off. The user gets no further call.
  func abort() {
    user = nil
    guard stage != .ended else { return }
    stage = .ended
    timer = nil
    socket.abort()
  }

  private func lost(_ fault: String) {
    let told = user
    end()
    told?.linkLost(fault)
  }

  private func end() {
    user = nil
    guard stage != .ended else { return }
    stage = .ended
    timer = nil
    unsent.removeAll()
    socket.close()
  }
}
