import ApusAdmin
import ApusCore
import ApusHTTP2
import ApusLog
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
    /// The last words are on their way. What the peer still sends is read and thrown away, here and in the stages that
    /// follow, since a close with unread bytes would make the kernel send a reset, and that destroys our last words in
    /// the peer's buffer.
    case finishing
    /// The system has the last words; see `Limits.lastWordsMilliseconds`.
    case pausing
    /// Everything to say has been queued; once it is written our side of the connection is shut.
    case closing
    /// Our side is shut, and the peer has a moment to shut its own.
    case lingering
    case closed
  }

  /// How the protocol ends its connection.
  enum Ending {
    case none
    case now
    /// With a pause before close_notify: see `Limits.lastWordsMilliseconds`.
    case afterPause
  }

  /// How long the peer has had for our last words.
  struct Linger {
    /// Second since which nothing more is to be said: our side was shut then; or, where it is awaited that the peer has
    /// everything, its system was seen to have that.
    var sinceSeconds: UInt64 = 0
    /// Whether the peer's system was seen to have everything.
    var isSeenTaken = false
  }

  /// What became of a connection whose last words were said.
  enum End {
    /// The peer shut its side, without a reset.
    case peerFinished
    /// The peer did not in time. `isTaken`: its system has acknowledged every byte.
    case timedOut(isTaken: Bool)
    /// Reset by the peer, or cut by the service.
    case cut
  }

  /// Strong for the same reason as the driver's reference: the table forgets a connection that ends.
  let table: ConnectionTable
  let context: WorkerContext
  let listener: ServiceListener
  /// Its place in the table.
  let entry: DeadlineWheel.Entry
  var slot: Int32 { entry.slot }
  let peer: SocketAddress
  let tls: TLSConnection
  /// When it was accepted, on the clock that all loops share: of two connections of a device the later one is newer.
  let acceptedMilliseconds: UInt64
  var stage: Stage
  let socket: Socket
  /// Nil before the protocol begins, and after it has ended.
  var driver: ConnectionDriver?
  /// Ciphertext that the socket did not take.
  var unsent = OutputQueue()
  var isPeerFinished = false
  /// How the connection ends as soon as the protocol has said its last.
  var ending = Ending.none
  /// While it lingers.
  var linger = Linger()
  private(set) var isReadingPaused = false
  /// Whether this worker serves a peer that has proved who it is.
  var isTrusted: Bool { holder != nil && !isLeaving }
  /// Whom `ConnectionGate` counts it for; nil while the peer has proved nothing.
  var holder: ConnectionHolder?
  /// Whether the connection moves to another worker when the turn ends. Nothing more is read here.
  private(set) var isLeaving = false
  /// Whether it waits for its turn, or for a step of its handshake; see `UntrustedWork`.
  var isHeldBack = false
  /// What its peer has sent that is to wait for a later turn; empty of trusted ones.
  var waiting: [UInt8] = []
  /// Millisecond of the loop's clock since which its peer owes the next step of the handshake; otherwise `.max`.
  var halfOpenMilliseconds = UInt64.max
  /// Whether it is in the table's list of connections with something to write.
  var isDirty = false
  /// Second of the worker's clock at which a time limit of the protocol, or of the connection's end, is reached.
  var deadlineSeconds: UInt64
  /// Second of the worker's clock at which a peer is cut off that takes nothing of what waits for it. Apart from the
  /// other deadlines: they are to be reached whether the peer reads slowly or not.
  private var stalledSeconds = UInt64.max
  var dueSeconds: UInt64 { min(deadlineSeconds, stalledSeconds) }
  /// Second at which it is looked at whether the connection has been quiet for long enough to fall dormant.
  var quietSeconds = UInt64.max
  /// Second at which the wheel comes to it next.
  var watchedSeconds = UInt64.max
  /// Second of a later entry that the wheel has for it; see `ConnectionTable.watch`.
  var plannedSeconds = UInt64.max

  private static let readsPerTurn = 4

  init(
    table: ConnectionTable, listener: ServiceListener, entry: DeadlineWheel.Entry, socket: Socket,
    peer: SocketAddress, tls: TLSConnection, acceptedMilliseconds: UInt64,
    stage: Stage = .handshaking
  ) {
    self.table = table
    context = table.context
    self.listener = listener
    self.entry = entry
    self.peer = peer
    self.tls = tls
    self.acceptedMilliseconds = acceptedMilliseconds
    self.stage = stage
    deadlineSeconds = context.nowSeconds + UInt64(Limits.handshakeSeconds)
    self.socket = socket
    socket.handler = self
    socket.setInterest(reading: true, writing: false)
  }

  /// The connection goes on elsewhere. When the turn ends, and not at once: TLS still holds what has arrived.
  func leave() {
    isLeaving = true
    markDirty()
  }

  var unsentByteCount: Int { unsent.count }

  /// Whether the protocol may queue more output now.
  var mayWrite: Bool { stage == .open && unsentByteCount < Limits.outputHighWaterBytes }

  // MARK: Reading

  func socketReadable() {
    if stage == .handshaking { return shakeHands() }
    if mayRead() { read(times: isTrusted ? Self.readsPerTurn : 1) }
  }

  func read(times: Int) {
    guard stage == .open else { return discardInput(times: times) }
    for _ in 0..<times {
      guard stage == .open, !wantsPause else { break }
      let buffer = unsafe receiveBuffer
      switch unsafe socket.read(into: buffer) {
      case .bytes(let count):
        unsafe pump(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
        if count < buffer.count { return markDirty() }
      case .wouldBlock: return markDirty()
      case .endOfStream: return peerFinished()
      case .failed: return abort()
      }
    }
    if stage != .closed { markDirty() }
  }

  var receiveBuffer: UnsafeMutableRawBufferPointer {
    guard !isTrusted else { return unsafe context.receiveBuffer }
    return unsafe UnsafeMutableRawBufferPointer(
      rebasing: context.receiveBuffer[..<Limits.untrustedReadBytes])
  }

  /// Decrypts `input` and hands the plaintext to the protocol.
  func pump(_ input: UnsafeRawBufferPointer) {
    let buffers = context.tlsBuffers
    unsafe tls.provide(input, buffers: buffers)
    while stage == .open {
      switch tls.read(buffers: buffers) {
      case .plaintext(let bytes):
        if isTrusted { unsafe received(bytes) } else { unsafe waiting.append(contentsOf: bytes) }
      // The handshake was completed in a step of its own.
      case .needsInput, .handshakeCompleted:
        writeOutput()
        return takeWaiting(upTo: Limits.untrustedTurnBytes)
      case .closedByPeer:
        isPeerFinished = true
        writeOutput()
        takeWaiting(upTo: .max)
        return peerFinished()
      case .failed(let error): return failed(error)
      }
    }
    writeOutput()
  }

  func established() {
    endHandshake()
    stage = .open
    lookAtExpiry()
    tls.compact()
    if listener.kind == .gateway || listener.kind == .feedback {
      // As with a certificate that is not good here: the handshake succeeds, then the service closes.
      guard becomeTrusted(as: .provider(certificateTeam)) else { return close() }
    }
    if !isLeaving { beginProtocol() }
  }

  func beginProtocol() {
    driver = table.host?.beginProtocol(of: self)
    guard driver != nil else { return close() }
    watch()
  }

  func received(_ bytes: UnsafeRawBufferPointer) { unsafe driver?.receive(bytes) }

  func markDirty() { table.markDirty(self) }
  func watch() { table.watch(self) }

  /// - Parameter rejected: Whose certificate it was that ended the handshake.
  func failed(_ error: TLSError, _ rejected: RejectedCertificate? = nil) {
    logLimited(.info, .tlsFailed) {
      [
        .text("peer", peer.description), .text("listener", listener.name),
        .text("reason", error.description),
      ]
    }
    noteRefusedHandshake(error, rejected)
    // What OpenSSL has to say about it, the alert, is still to be sent.
    writeOutput()
    driverClosed(.cut)
    stage = .closing
    markDirty()
  }

  func peerFinished() {
    isPeerFinished = true
    guard stage == .open else { return abort() }
    updateInterest()
    // The worker that takes the connection over ends it.
    guard !isLeaving else { return }
    if let driver { driver.peerFinished() } else { close() }
    markDirty()
  }

  // MARK: Writing

  /// Encrypts plaintext; the ciphertext leaves with the next `writeOutput`.
  func encrypt(_ plaintext: borrowing [UInt8], count: Int) {
    guard stage == .open, count > 0 else { return }
    do {
      try unsafe plaintext.withUnsafeBytes { bytes in
        try unsafe tls.write(
          UnsafeRawBufferPointer(rebasing: bytes[..<count]), buffers: context.tlsBuffers)
      }
    } catch {
      stage = .closing
    }
  }

  /// Lets the protocol say what it has to say; called when the worker's turn ends.
  func flush() {
    isDirty = false
    if isLeaving, stage == .open { return handOver() }
    if stage == .open { flushDriver() }
    writeOutput()
    if unsentByteCount == 0 { goOnEnding() }
    let paused = wantsPause
    if paused != isReadingPaused, stage != .closed {
      isReadingPaused = paused
      updateInterest()
    }
  }

  /// Whether nothing more is to be read for now: the peer does not read, or the protocol has enough to do.
  private var wantsPause: Bool {
    if unsentByteCount >= Limits.outputHighWaterBytes { return true }
    return stage == .open && driver?.wantsPause == true
  }

  /// Moves the ciphertext of this connection out of the worker's buffer, to the socket as far as it takes it.
  func writeOutput() {
    let buffers = context.tlsBuffers
    guard buffers.outputCount > 0 else { return }
    defer { buffers.removeAllOutput() }
    unsafe write(buffers.output)
  }

  /// Sends ciphertext, as far as the socket takes it.
  func write(_ ciphertext: UnsafeRawBufferPointer) {
    guard stage != .closed, stage != .lingering, unsafe !ciphertext.isEmpty else { return }
    switch unsafe unsent.write(ciphertext, to: socket) {
    case .written, .queued: break
    case .blocked: stalled()
    case .failed: abort()
    }
  }

  func stalled() {
    updateInterest()
    stalledSeconds = min(
      stalledSeconds, context.nowSeconds + UInt64(Limits.writeStallSeconds))
    watch()
  }

  func socketWritable() {
    let before = unsent.count
    let outcome = unsent.writeWaiting(to: socket)
    if unsent.count < before { touchWrite() }
    switch outcome {
    case .written:
      stalledSeconds = .max
      updateInterest()
      markDirty()
    case .queued, .blocked: break
    case .failed: abort()
    }
  }

  private func touchWrite() {
    stalledSeconds = context.nowSeconds + UInt64(Limits.writeStallSeconds)
  }

  func updateInterest() {
    guard stage != .closed else { return }
    let reads = !isReadingPaused || isDiscarding
    socket.setInterest(
      reading: reads && !isPeerFinished && !isHeldBack, writing: unsentByteCount > 0)
  }

  // MARK: Time

  /// The deadline came; the connection decides whether it is over or looks again later.
  func deadlineReached() {
    switch stage {
    case .closed: return
    case .handshaking where isHeldBack && !context.shutdown.isDraining:
      // The peer has done its part.
      deadlineSeconds = context.nowSeconds + UInt64(Limits.handshakeSeconds)
    case .handshaking: handshakeTimedOut()
    case .finishing, .pausing, .closing:
      guard stalledSeconds > context.nowSeconds, let driver else { return abort() }
      driver.deadlineReached()
    case .lingering: lingerEnded()
    case .open:
      if stalledSeconds <= context.nowSeconds {
        context.ended.count(.unread)
        logLimited(.info, .peerDoesNotRead) { [.text("peer", peer.description)] }
        return abort()
      }
      if let driver { driver.deadlineReached() } else { abort() }
      markDirty()
    }
    if stage != .closed { watch() }
  }

  /// Tells the peer's kernel at once what has arrived.
  func acknowledgeNow() { socket.acknowledgeNow() }
}
