import ApusLoop
import ApusModel
import ApusTLS

/// One connection with its layers: socket, TLS, HTTP/2.
final class Link: SocketHandler {
  private enum Stage {
    case connecting
    case tunnelling
    case handshaking
    case open(ProviderSession)
    /// All output is queued; once it is written, the socket is closed.
    case closing
    case closed
  }

  let address: SocketAddress
  /// The round that created it.
  var round: ConnectRound?
  /// Whether the service's time was read.
  var isClockKnown = false
  private unowned let owner: any LinkOwner
  private let socket: Socket
  private let tls: TLSConnection
  private var stage = Stage.connecting
  /// The tunnel through a proxy.
  private var tunnel: ProxyTunnel?
  private var scratch: [UInt8] = []
  /// Ciphertext that the socket has not taken yet.
  private var unsent = OutputQueue()
  /// By the loop's clock: when connecting or closing must be complete.
  private var deadlineMilliseconds: UInt64

  private static let readsPerTurn = 4
  private static let closingMilliseconds: UInt64 = 5000
  private static let userTimeoutMilliseconds = 20_000

  init(
    to address: SocketAddress, through tunnel: ProxyTunnel? = nil, context: TLSContext,
    owner: any LinkOwner, deadlineMilliseconds: UInt64
  ) throws(LinkFailure) {
    self.address = address
    self.tunnel = tunnel
    self.owner = owner
    self.deadlineMilliseconds = deadlineMilliseconds
    do throws(TLSError) { tls = try TLSConnection(context: context) } catch {
      throw LinkFailure(error)
    }
    do throws(SocketError) { socket = try Socket.connect(to: address, loop: owner.loop) } catch {
      throw LinkFailure(error)
    }
    socket.handler = self
    // A dead machine does not answer a PING either, and the kernel notices it first.
    socket.setUserTimeout(milliseconds: Self.userTimeoutMilliseconds)
    socket.setKeepAlive(.standard)
    socket.setInterest(reading: false, writing: true)
  }

  // MARK: Reading

  func socketReadable() {
    for _ in 0..<Self.readsPerTurn {
      switch stage {
      case .tunnelling, .handshaking, .open: break
      case .closing: return discardInput()
      case .connecting, .closed: return
      }
      let buffer = unsafe owner.receiveBuffer
      switch unsafe socket.read(into: buffer) {
      case .bytes(let count):
        if case .tunnelling = stage {
          let bytes = unsafe UnsafeRawBufferPointer(rebasing: buffer[..<count])
          unsafe tunnelProgressed(Span(_unsafeBytes: bytes))
        } else {
          unsafe pump(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
        }
        if count < buffer.count { return }
      case .wouldBlock: return
      case .endOfStream: return end(LinkFailure(TLSError.truncated))
      case .failed(let code): return end(LinkFailure(systemError: code))
      }
    }
  }

  /// Decrypts `input` and passes the plaintext to the session.
  private func pump(_ input: UnsafeRawBufferPointer) {
    unsafe tls.provide(input, buffers: owner.buffers)
    reading: while true {
      switch tls.read(buffers: owner.buffers) {
      case .handshakeCompleted: opened()
      case .plaintext(let bytes):
        if case .open(let session) = stage, unsafe !session.receive(bytes) {
          flush()
          end(LinkFailure("the service broke the HTTP/2 protocol"))
        }
      case .needsInput: break reading
      case .closedByPeer:
        writeOutput()
        return end(LinkFailure("the service closed the connection"))
      case .failed(let error):
        // OpenSSL's alert must still be sent.
        writeOutput()
        return end(LinkFailure(error))
      }
    }
    writeOutput()
    if case .open(let session) = stage { owner.linkProgressed(self, session) }
  }

  private func opened() {
    guard tls.negotiatedProtocol != nil else {
      return end(LinkFailure(TLSError.noApplicationProtocol))
    }
    stage = .open(owner.linkOpened(self))
  }

  private func discardInput() {
    for _ in 0..<Self.readsPerTurn {
      switch unsafe socket.read(into: owner.receiveBuffer) {
      case .bytes: continue
      case .wouldBlock: return
      case .endOfStream, .failed:
        finish()
        return
      }
    }
  }

  // MARK: Writing

  func socketWritable() {
    if case .connecting = stage { return connected() }
    switch unsent.writeWaiting(to: socket) {
    case .written:
      updateInterest()
      flush()
    case .queued, .blocked: break
    case .failed(let code): end(LinkFailure(systemError: code))
    }
  }

  private func connected() {
    let code = socket.connectError()
    guard code == 0 else {
      return end(LinkFailure(SocketError.system(.connect, code: code, address)))
    }
    guard let tunnel else { return startHandshake() }
    stage = .tunnelling
    let request = tunnel.request
    unsafe request.span.bytes.withUnsafeBytes { _ = unsafe unsent.write($0, to: socket) }
    updateInterest()
  }

  private func tunnelProgressed(_ bytes: Span<UInt8>) {
    switch tunnel?.receive(bytes) {
    case .open, nil: startHandshake()
    case .needsInput: break
    case .refused(let text): end(LinkFailure(text))
    }
  }

  private func startHandshake() {
    stage = .handshaking
    updateInterest()
    tls.startHandshake(buffers: owner.buffers)
    writeOutput()
  }

  /// Writes the session's output, one TLS record at a time, as far as the socket takes it. Called at the end of the
  /// loop's turn.
  func flush() {
    guard case .open(let session) = stage else { return }
    if let text = session.deathText { return end(LinkFailure(text)) }
    while session.wantsWrite, unsent.isEmpty {
      scratch.removeAll(keepingCapacity: true)
      session.pendingOutput(into: &scratch, limit: TLSBuffers.recordBytes)
      if scratch.isEmpty { break }
      do throws(TLSError) {
        try encrypt()
      } catch {
        return end(LinkFailure(error))
      }
      writeOutput()
      guard case .open = stage else { return }
    }
    guard session.isFinished || session.isDone, !session.wantsWrite else { return }
    if session.openCount > 0 { return end(LinkFailure("the service broke the HTTP/2 protocol")) }
    goodbye()
  }

  private func encrypt() throws(TLSError) {
    let buffers = owner.buffers
    let plaintext = scratch
    try unsafe plaintext.span.bytes.withUnsafeBytes { (plaintext) throws(TLSError) in
      try unsafe tls.write(plaintext, buffers: buffers)
    }
  }

  /// Moves the ciphertext from the shared buffer to the socket, as far as the socket takes it.
  private func writeOutput() {
    let buffers = owner.buffers
    guard buffers.outputCount > 0 else { return }
    defer { buffers.removeAllOutput() }
    if case .closed = stage { return }
    switch unsafe unsent.write(buffers.output, to: socket) {
    case .written, .queued: break
    case .blocked: updateInterest()
    // Data from before the reset can still be read, and explains more than the reset does.
    case .failed: break
    }
  }

  private func updateInterest() {
    socket.setInterest(reading: true, writing: !unsent.isEmpty)
  }

  // MARK: The end

  /// Closes a connection without open requests: GOAWAY and close_notify, then the socket once they are written.
  func goodbye() {
    guard case .open(let session) = stage else { return end(LinkFailure("the client was closed")) }
    session.goodbye()
    scratch.removeAll(keepingCapacity: true)
    session.pendingOutput(into: &scratch, limit: TLSBuffers.recordBytes)
    try? encrypt()
    tls.close(buffers: owner.buffers)
    writeOutput()
    guard case .open = stage else { return }
    stage = .closing
    deadlineMilliseconds = owner.loop.nowMilliseconds + Self.closingMilliseconds
    if unsent.isEmpty { finish() }
  }

  /// Ends the connection.
  func end(_ failure: LinkFailure) {
    let ended = stage
    guard finish() else { return }
    switch ended {
    case .connecting, .tunnelling, .handshaking: owner.linkEnded(self, nil, failure)
    case .open(let session): owner.linkEnded(self, session, failure)
    case .closing, .closed: break
    }
  }

  /// Ends what takes too long.
  func tick(nowMilliseconds: UInt64) {
    guard nowMilliseconds >= deadlineMilliseconds else { return }
    switch stage {
    case .connecting: end(LinkFailure("connecting to \(address) took too long"))
    case .tunnelling: end(LinkFailure("the proxy \(address) did not answer"))
    case .handshaking: end(LinkFailure("the TLS handshake with \(address) took too long"))
    case .closing: finish()
    case .open, .closed: break
    }
  }

  /// The session, while the connection is open.
  var session: ProviderSession? { if case .open(let session) = stage { session } else { nil } }

  /// Whether only unsent output keeps it open.
  var isClosing: Bool { if case .closing = stage { true } else { false } }

  var isClosed: Bool { if case .closed = stage { true } else { false } }

  /// False if it had already finished.
  @discardableResult
  private func finish() -> Bool {
    if case .closed = stage { return false }
    stage = .closed
    unsent.removeAll()
    socket.close()
    return true
  }
}
