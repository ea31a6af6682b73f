import ApusAdmin
import ApusCore
import ApusLog
import ApusLoop
import ApusModel
import ApusTLS

/// The only pump: socket, TLS, protocol, and back.
///
/// A connection has no buffers of its own while it is quiet: it reads into the worker's buffer, OpenSSL decrypts into
/// another, and the protocol's output is collected when the worker's turn ends. Only bytes that the socket did not take
/// stay here.
///
/// It ends without losing its last output: the protocol writes it, a pause follows where old clients need one, then
/// close_notify; our side is shut, and for a moment the peer's bytes are read and discarded.
final class Connection: SocketHandler {
  /// Strong for the same reason as the driver's reference: the table forgets a connection that ends.
  let table: ConnectionTable
  let context: WorkerContext
  private(set) var listener: ServiceListener
  /// Its place in the table.
  let entry: DeadlineWheel.Entry
  /// The client; the proxy itself until it has named the client.
  private(set) var peer: SocketAddress
  let tls: TLSConnection
  /// Takes the place of socket and TLS if another node has the client's connection.
  let linked: LinkedClient?
  /// When it was accepted, on the clock that all loops share: of two connections of a device the later one is newer.
  let acceptedMilliseconds: UInt64
  let socket: Socket
  private(set) var stage: Stage
  /// Nil before the protocol begins, and after it has ended.
  private(set) var driver: ConnectionDriver?
  /// For whom `ConnectionGate` counts it; nil while the peer is untrusted.
  private(set) var holder: ConnectionHolder?
  private(set) var isPeerFinished = false
  private(set) var isReadingPaused = false
  /// Whether it is in the table's list of connections with output.
  private var isDirty = false
  /// Ciphertext that the socket did not take.
  var unsent = OutputQueue()
  var untrusted = UntrustedState()
  var schedule: ConnectionSchedule

  private static let lingerSeconds: UInt64 = 5

  init(
    table: ConnectionTable, listener: ServiceListener, entry: DeadlineWheel.Entry, socket: Socket,
    peer: SocketAddress, tls: TLSConnection, linked: LinkedClient? = nil,
    acceptedMilliseconds: UInt64, stage: Stage = .handshaking
  ) {
    self.table = table
    context = table.context
    self.listener = listener
    self.entry = entry
    self.peer = peer
    self.tls = tls
    self.linked = linked
    self.acceptedMilliseconds = acceptedMilliseconds
    self.stage = stage
    schedule = ConnectionSchedule(
      deadlineSeconds: context.nowSeconds + UInt64(Limits.handshakeSeconds))
    self.socket = socket
    socket.handler = self
    socket.setInterest(reading: true, writing: false)
  }

  var slot: Int32 { entry.slot }
  /// Whose address the gate counts it for; nil for none.
  var countedPeer: SocketAddress? { untrusted.awaitsProxyHeader ? nil : peer }
  var unsentByteCount: Int { unsent.count }

  var isOpen: Bool { stage.isOpen }
  /// Whether the connection moves to another worker when the turn ends.
  var isLeaving: Bool { if case .leaving = stage { true } else { false } }
  var isLingering: Bool { if case .lingering = stage { true } else { false } }

  /// Whether this worker serves a peer that has proved its identity.
  var isTrusted: Bool { holder != nil && !isLeaving }

  /// Whether nothing is pending on the connection itself.
  var isQuiet: Bool {
    stage == .open && !isPeerFinished && !isReadingPaused && !isDirty && unsentByteCount == 0
  }

  /// Whether the protocol may queue more output now.
  var mayWrite: Bool { isOpen && hasRoom }

  private var hasRoom: Bool {
    if let linked { return linked.mayWrite }
    return unsentByteCount < Limits.outputHighWaterBytes
  }

  // MARK: Reading

  /// Decrypts `input` and hands the plaintext to the protocol.
  func pump(_ input: UnsafeRawBufferPointer) {
    let buffers = context.tlsBuffers
    unsafe tls.provide(input, buffers: buffers)
    while isOpen {
      switch tls.read(buffers: buffers) {
      case .plaintext(let bytes):
        if isTrusted { unsafe received(bytes) } else { unsafe untrusted.append(bytes) }
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
    buffers.dropInput()
    writeOutput()
  }

  func received(_ bytes: UnsafeRawBufferPointer) { unsafe driver?.receive(bytes) }

  func peerFinished() {
    isPeerFinished = true
    guard isOpen else { return abort() }
    updateInterest()
    // The worker that takes the connection over ends it.
    guard !isLeaving else { return }
    if let driver { driver.peerFinished() } else { close() }
    markDirty()
  }

  /// The peer shut its side while its input was discarded.
  func discardedInputEnded() {
    isPeerFinished = true
    return isLingering ? peerFinishedLate() : updateInterest()
  }

  func updateInterest() {
    guard stage != .closed else { return }
    if linked != nil { return goOnReadingHeld() }
    let reads = !isReadingPaused || stage.isDiscarding
    socket.setInterest(
      reading: reads && !isPeerFinished && !untrusted.isHeldBack, writing: unsentByteCount > 0)
  }

  // MARK: Beginning

  func established() {
    endHandshake()
    stage = .open
    lookAtExpiry()
    tls.compact()
    goOnEstablished()
  }

  /// The peer is who its certificate says, or has none.
  func goOnEstablished() {
    if listener.kind == .gateway || listener.kind == .feedback {
      // As for a certificate that is not valid here: the handshake succeeds, then the service closes.
      guard becomeTrusted(as: .provider(certificateTeam)) else { return close() }
    }
    if !isLeaving { beginProtocol() }
  }

  func beginProtocol() { begin(table.host?.beginProtocol(of: self)) }

  /// Continues with a protocol that began elsewhere.
  func begin(_ driver: ConnectionDriver?) {
    guard let driver else { return close() }
    self.driver = driver
    watch()
  }

  /// The proxy has named the client in a header of `byteCount` bytes.
  func identify(_ client: SocketAddress, headerByteCount: Int) {
    peer = client
    untrusted.proxyHeaderEnded(atByte: headerByteCount)
  }

  /// From now on the gate counts it for `holder`.
  func trust(_ holder: ConnectionHolder) { self.holder = holder }

  /// - Parameter rejected: The certificate because of which the handshake failed.
  func failed(_ error: TLSError, _ rejected: RejectedCertificate? = nil) {
    logLimited(.info, .tlsFailed) {
      [
        .text("peer", peer.description), .text("listener", listener.name),
        .text("reason", error.description),
      ] + refusedVersionFields
    }
    noteRefusedHandshake(error, rejected)
    // OpenSSL's alert is still to be sent.
    writeOutput()
    driverClosed(.cut)
    stage = .closing
    markDirty()
  }

  /// Nothing can be encrypted any longer; what is queued is still written.
  func encryptionFailed() { stage = .closing }

  // MARK: The turn's end

  func markDirty() {
    guard !isDirty else { return }
    isDirty = true
    table.append(dirty: self)
  }

  /// Lets the protocol write its output; called when the worker's turn ends.
  func flush() {
    isDirty = false
    if isLeaving { return handOver() }
    if isOpen { flushDriver() }
    writeOutput()
    if unsentByteCount == 0 { goOnEnding() }
    let paused = wantsPause
    if paused != isReadingPaused, stage != .closed {
      isReadingPaused = paused
      updateInterest()
    }
  }

  /// What comes from the client's node is held until the connection is read again.
  func pauseReading() {
    isReadingPaused = true
    markDirty()
  }

  /// Whether nothing more is to be read for now: the peer does not read, or the protocol has enough to do.
  var wantsPause: Bool {
    if !hasRoom { return true }
    return isOpen && driver?.wantsPause == true
  }

  /// Lets the protocol write, and begins the connection's end if that was the last output.
  private func flushDriver() {
    var ending = driver?.flush() ?? .none
    switch stage {
    case .open: break
    case .ending: if ending == .none { ending = .now }
    case .handshaking, .leaving, .finishing, .pausing, .closing, .lingering, .closed: return
    }
    switch ending {
    case .none: return
    case .now: sayGoodbye()
    case .afterPause:
      stage = .finishing
      forgetDeadline()
    }
    if !awaitsConfirmation { driverClosed(.peerFinished) }
  }

  // MARK: Moving

  /// The connection moves to another worker when the turn ends, and not at once: TLS still holds input.
  func leave() {
    if isOpen { stage = .leaving }
    markDirty()
  }

  /// The protocol of a connection that does not move goes on where it would have moved.
  func stay() -> ConnectionDriver? {
    stage = .open
    return driver.take()
  }

  /// Retires this object: the connection continues as another one, or as a row of the dormant ones.
  func retire() -> ConnectionDriver? {
    stage = .closed
    return driver.take()
  }

  // MARK: Ending

  /// Ends the connection when the turn ends.
  func close() {
    switch stage {
    case .handshaking: stage = .closing
    case .open: stage = .ending
    case .leaving, .ending, .finishing, .pausing, .closing, .lingering, .closed: break
    }
    markDirty()
  }

  private func sayGoodbye() {
    if let linked { linked.finish() } else { tls.close(buffers: context.tlsBuffers) }
    stage = .closing
    forgetDeadline()
  }

  /// Waiting output has no deadline but that of a stall, except for a list of feedback: nobody gets the rest of it with
  /// an expired certificate.
  private func forgetDeadline() {
    if !awaitsConfirmation { schedule.deadlineSeconds = .max }
  }

  /// The system has all output.
  private func goOnEnding() {
    switch stage {
    case .finishing:
      stage = .pausing
      table.pause(self)
    case .closing: shut()
    case .handshaking, .open, .leaving, .ending, .pausing, .lingering, .closed: return
    }
  }

  /// The pause after the last output is over.
  func pauseEnded() {
    guard stage == .pausing else { return }
    sayGoodbye()
    // TLS wrote close_notify to the worker's buffer, which the next connection uses in a moment.
    writeOutput()
    markDirty()
  }

  private func shut() {
    if isPeerFinished, !awaitsConfirmation { return abort(.peerFinished) }
    stage = .lingering(Linger(sinceSeconds: context.nowSeconds))
    if linked == nil { socket.shutdownWrite() }
    updateInterest()
    // Each second it is checked what the peer's system has of the last output.
    schedule.deadlineSeconds =
      context.nowSeconds + (awaitsConfirmation ? 1 : Self.lingerSeconds)
    watch()
  }

  var awaitsConfirmation: Bool { driver?.awaitsConfirmation == true }

  /// Whether nothing is lost if the connection is cut: the peer's system has all output, its end included. A peer that
  /// opens its next connection before it closes this one must not have to wait for itself.
  var isComplete: Bool { isLingering && !awaitsConfirmation && isTaken }

  /// Whether the peer's system has all output. Of a client's connection at another node, only that node can tell.
  private var isTaken: Bool {
    if linked != nil { return isPeerFinished }
    return unsent.isEmpty && socket.unacknowledgedByteCount == 0
  }

  /// The peer shut its side while the connection lingered. It may have done so long before, without having read
  /// anything: then, too, only its system can tell.
  private func peerFinishedLate() {
    guard awaitsConfirmation, !isTaken else { return abort(.peerFinished) }
    updateInterest()
    schedule.deadlineSeconds = context.nowSeconds + 1
    watch()
  }

  func lingerEnded(_ linger: Linger) {
    guard awaitsConfirmation else { return abort(.timedOut(isTaken: isTaken)) }
    let isTaken = isTaken
    if isPeerFinished, isTaken { return abort(.peerFinished) }
    var linger = linger
    // Output that comes late, after a network failure, gets its reader's time too.
    if isTaken, !linger.isSeenTaken {
      linger = Linger(sinceSeconds: context.nowSeconds, isSeenTaken: true)
      stage = .lingering(linger)
    }
    // The node that holds the client's connection waits as long, and then says how it ended.
    let limit = Limits.feedbackTakenSeconds * (linked == nil ? 1 : 2)
    guard context.nowSeconds < linger.sinceSeconds + UInt64(limit) else {
      return abort(.timedOut(isTaken: isTaken))
    }
    schedule.deadlineSeconds = context.nowSeconds + 1
  }

  /// Ends the connection without any further output.
  func abort(_ end: End = .cut) {
    guard stage != .closed else { return }
    driverClosed(end)
    stage = .closed
    unsent.removeAll()
    socket.close()
    linked?.end()
    table.forget(self)
  }

  private func driverClosed(_ end: End) {
    let ended = driver.take()
    ended?.connectionClosed(end)
  }
}
