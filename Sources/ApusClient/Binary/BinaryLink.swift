import ApusLoop
import ApusModel
import ApusTLS
import ApusWire

/// What a client's links share, and where they report.
protocol BinaryLinkOwner: AnyObject {
  var loop: EventLoop { get }
  var buffers: TLSBuffers { get }
  var receiveBuffer: UnsafeMutableRawBufferPointer { get }
  /// The TLS handshake is complete.
  func linkOpened(_ link: BinaryLink)
  /// The link has ended, and its socket is closed.
  func linkEnded(_ link: BinaryLink, _ end: BinaryLink.End)
}

/// One connection to a gateway: socket, TLS, frames out, packets in.
final class BinaryLink: SocketHandler {
  private enum Stage { case connecting, handshaking, open, closing, closed }

  enum End {
    /// A packet gave the reason, and the lane's queue has processed it. `verdict` is not `goOn`.
    case told(SentQueue.PacketVerdict)
    /// It never opened.
    case failed(LinkFailure)
    /// It broke, or the service closed it without a packet. `isUnread`: before it read anything.
    case lost(String, isUnread: Bool)
    /// This side ended it, with nothing open.
    case finished
  }

  let lane: BinaryLane
  let address: SocketAddress
  private unowned let owner: any BinaryLinkOwner
  private let socket: Socket
  private let tls: TLSConnection
  private var stage = Stage.connecting
  private var unsent = OutputQueue()
  private var records = WrittenRecords()
  private var packet: [UInt8] = []
  private var deadlineMilliseconds: UInt64
  /// Whether writing failed: nothing more is sent, but received data is still read.
  private var isBroken = false

  /// Reads in one turn before others get theirs.
  private static let readsPerTurn = 16
  /// Records encrypted for one system call, and such calls in one turn.
  private static let recordsPerWrite = 8
  private static let writesPerTurn = 16
  private static let closingMilliseconds: UInt64 = 5000
  /// Silence after which the peer's system gets a keepalive, and how long an acknowledgement may take.
  private static let keepAliveSeconds = 60
  private static let userTimeoutMilliseconds = 20_000

  init(
    to address: SocketAddress, lane: BinaryLane, context: TLSContext, owner: any BinaryLinkOwner,
    deadlineMilliseconds: UInt64
  ) throws(SocketError) {
    self.address = address
    self.lane = lane
    self.owner = owner
    self.deadlineMilliseconds = deadlineMilliseconds
    do throws(TLSError) { tls = try TLSConnection(context: context) } catch {
      preconditionFailure("\(error)")
    }
    socket = try Socket.connect(to: address, loop: owner.loop)
    socket.setKeepAlive(idleSeconds: Self.keepAliveSeconds)
    socket.setUserTimeout(milliseconds: Self.userTimeoutMilliseconds)
    socket.handler = self
    socket.setInterest(reading: false, writing: true)
  }

  var isOpen: Bool { stage == .open && !isBroken }

  var isClosed: Bool { stage == .closed }

  /// Whether it only sends its last bytes.
  var isClosing: Bool { stage == .closing }

  // MARK: Reading

  func socketReadable() { readAll() }

  /// Reads all available bytes. True if it read all of them and the link is still open.
  @discardableResult
  private func readAll() -> Bool {
    for _ in 0..<Self.readsPerTurn {
      guard stage == .handshaking || stage == .open || stage == .closing else { return false }
      let buffer = unsafe owner.receiveBuffer
      switch unsafe socket.read(into: buffer) {
      case .bytes(let count): unsafe pump(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
      case .wouldBlock: return stage == .open
      case .endOfStream:
        lose("the service closed the connection without close_notify")
        return false
      case .failed(let code):
        lose(LinkFailure(systemError: code).text)
        return false
      }
    }
    return false
  }

  private func pump(_ input: UnsafeRawBufferPointer) {
    unsafe tls.provide(input, buffers: owner.buffers)
    while true {
      switch tls.read(buffers: owner.buffers) {
      case .handshakeCompleted:
        stage = .open
        lane.queue.connectionBegan()
        owner.linkOpened(self)
      case .plaintext(let bytes):
        unsafe received(Span<UInt8>(_unsafeBytes: bytes))
      case .needsInput: return writeOutput()
      case .closedByPeer:
        tls.close(buffers: owner.buffers)
        writeOutput()
        return lose("the service closed the connection")
      case .failed(let error):
        // OpenSSL's alert must still be sent.
        writeOutput()
        return fail(error)
      }
    }
  }

  private func fail(_ error: TLSError) {
    switch error {
    case .certificateRejected: end(.failed(LinkFailure(error)))
    // RFC 8446, section 6.2: a server sends these about a client's certificate during its handshake. This side may
    // already have finished the handshake, and have written.
    case .alertReceived(let code) where [40, 42, 43, 44, 45, 46, 48, 49, 116].contains(code):
      var failure = LinkFailure("the service refused the certificate: \(error)")
      failure.isFinal = true
      end(stage == .open ? .lost(failure.text, isUnread: true) : .failed(failure))
    default: lose("\(error)")
    }
  }

  private func lose(_ text: String) {
    switch stage {
    case .open: end(.lost(text, isUnread: false))
    case .closing: end(.finished)
    default: end(.failed(LinkFailure(text)))
    }
  }

  private func received(_ bytes: Span<UInt8>) {
    let size = BinaryErrorPacket.byteCount
    var offset = 0
    while stage == .open, offset < bytes.count {
      if packet.isEmpty, bytes.count - offset >= size {
        heard(BinaryErrorPacket(bytes.extracting(offset..<offset + size)))
        offset += size
        continue
      }
      packet.append(bytes[offset])
      offset += 1
      guard packet.count == size else { continue }
      let whole = packet
      packet = []
      heard(BinaryErrorPacket(whole.span))
    }
  }

  /// Nil: six bytes that are not a packet.
  private func heard(_ said: BinaryErrorPacket?) {
    let verdict = said.map { lane.queue.received($0) } ?? lane.queue.receivedNonsense()
    if verdict != .goOn { leave(verdict) }
  }

  /// The service sends nothing more.
  private func leave(_ verdict: SentQueue.PacketVerdict) {
    tls.close(buffers: owner.buffers)
    writeOutput()
    end(.told(verdict))
  }

  // MARK: Writing

  func socketWritable() {
    if stage == .connecting { return connected() }
    if !unsent.isEmpty {
      if case .failed = unsent.writeWaiting(to: socket) { return breakOff() }
      noteHandedOver()
      guard unsent.isEmpty else { return }
    }
    if stage == .closing { return end(.finished) }
    flush()
  }

  private func connected() {
    let code = socket.connectError()
    guard code == 0 else {
      return end(.failed(LinkFailure(SocketError.system(.connect, code: code, address))))
    }
    stage = .handshaking
    updateInterest(false)
    tls.startHandshake(buffers: owner.buffers)
    writeOutput()
  }

  /// Writes from the queue, as far as the socket takes it.
  func flush() {
    guard isOpen else { return }
    var writes = 0
    while unsent.isEmpty, lane.queue.wantsWrite, writes < Self.writesPerTurn {
      do throws(TLSError) {
        for _ in 0..<Self.recordsPerWrite { if try !encryptRecord() { break } }
      } catch {
        return lose("\(error)")
      }
      writeOutput()
      guard isOpen else { return }
      writes += 1
    }
    // Lets others run: the loop returns immediately, since the socket is writable.
    updateInterest(lane.queue.wantsWrite)
  }

  /// False if there was nothing to write.
  private func encryptRecord() throws(TLSError) -> Bool {
    guard let run = lane.queue.nextRecord(limit: TLSBuffers.recordBytes) else { return false }
    let (buffers, tls, memory) = (owner.buffers, tls, lane.queue.frames.bytes)
    try unsafe memory.span.extracting(run).withUnsafeBytes { (frames) throws(TLSError) in
      try unsafe tls.write(frames, buffers: buffers)
    }
    records.add(through: lane.queue.next, pendingBytes: buffers.outputCount)
    return true
  }

  /// Moves the ciphertext from the shared buffer to the socket, as far as the socket takes it.
  private func writeOutput() {
    let buffers = owner.buffers
    guard buffers.outputCount > 0 else { return }
    defer { buffers.removeAllOutput() }
    if stage == .closed || isBroken { return }
    records.outputBytes += buffers.outputCount
    switch unsafe unsent.write(buffers.output, to: socket) {
    case .written, .queued: break
    case .blocked: updateInterest(true)
    case .failed: return breakOff()
    }
    noteHandedOver()
  }

  /// Nothing more can be written. Data from before the reset can still be read, and explains more than the reset does.
  private func breakOff() {
    guard !isBroken else { return }
    isBroken = true
    // Deferred, since this may be called while reading.
    updateInterest(false)
  }

  private func updateInterest(_ writing: Bool) {
    guard stage != .closed else { return }
    socket.setInterest(reading: true, writing: !isBroken && (writing || !unsent.isEmpty))
  }

  // MARK: Progress

  private func noteHandedOver() {
    if let place = records.handedOver(unsentBytes: unsent.count) {
      lane.queue.handedOver(through: place)
    }
  }

  /// Checks what the peer's system has received, and accepts what has been silent long enough.
  private func look(nowMilliseconds: UInt64) {
    // An unread packet would make silence look like acceptance.
    guard readAll(), isOpen else { return }
    if let waiting = socket.unacknowledgedByteCount,
      let place = records.reached(unacknowledgedBytes: unsent.count + waiting)
    {
      lane.queue.reached(through: place, nowMilliseconds: nowMilliseconds)
    }
    lane.queue.confirmSilent(nowMilliseconds: nowMilliseconds)
  }

  /// Call several times a second.
  func tick(nowMilliseconds: UInt64) {
    if stage == .open { return look(nowMilliseconds: nowMilliseconds) }
    guard nowMilliseconds >= deadlineMilliseconds else { return }
    switch stage {
    case .connecting: end(.failed(LinkFailure("connecting to \(address) took too long")))
    case .handshaking:
      end(.failed(LinkFailure("the TLS handshake with \(address) took too long")))
    case .closing: end(.finished)
    case .open, .closed: break
    }
  }

  // MARK: The end

  /// Ends a connection with nothing open: close_notify, then the socket is closed.
  func goodbye(nowMilliseconds: UInt64) {
    guard isOpen else { return abandon() }
    tls.close(buffers: owner.buffers)
    writeOutput()
    guard isOpen else { return abandon() }
    stage = .closing
    deadlineMilliseconds = nowMilliseconds + Self.closingMilliseconds
    if unsent.isEmpty { end(.finished) }
  }

  /// Ends the link without reporting it.
  func abandon() {
    stage = .closed
    unsent.removeAll()
    socket.close()
  }

  private func end(_ end: End) {
    guard stage != .closed else { return }
    abandon()
    owner.linkEnded(self, end)
  }
}
