import ApusLoop
import ApusModel
import ApusTLS
import ApusWire

/// What the links of a client share, and to whom they report.
protocol BinaryLinkOwner: AnyObject {
  var loop: EventLoop { get }
  var buffers: TLSBuffers { get }
  var receiveBuffer: UnsafeMutableRawBufferPointer { get }
  /// TLS is up.
  func linkOpened(_ link: BinaryLink)
  /// The link is over, and its socket closed.
  func linkEnded(_ link: BinaryLink, _ end: BinaryLink.End)
}

/// One connection to a gateway: socket, TLS, frames out, packets in.
final class BinaryLink: SocketHandler {
  private enum Stage { case connecting, handshaking, open, closing, closed }

  enum End {
    /// A packet said why, and the lane's queue knows. `verdict` is not `goOn`.
    case told(SentQueue.PacketVerdict)
    /// It was never open.
    case failed(LinkFailure)
    /// It broke, or the service ended it without a word. `isUnread`: before it read anything.
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
  /// Whether writing failed: nothing more goes out, and what came is still to be read.
  private var isBroken = false

  /// Reads before others get their turn.
  private static let readsPerTurn = 16
  /// Records that are encrypted for one call of the system, and such calls in one turn.
  private static let recordsPerWrite = 8
  private static let writesPerTurn = 16
  private static let closingMilliseconds: UInt64 = 5000
  /// Silence of the peer's system after which it is asked whether it is there, and for how long it may owe an
  /// acknowledgement.
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

  /// Whether it only has to get its last bytes out.
  var isClosing: Bool { stage == .closing }

  // MARK: Reading

  func socketReadable() { readAll() }

  /// Reads what is there. True when that was all, and the link still stands.
  @discardableResult
  private func readAll() -> Bool {
    for _ in 0..<Self.readsPerTurn {
      guard stage == .handshaking || stage == .open || stage == .closing else { return false }
      let buffer = unsafe owner.receiveBuffer
      switch unsafe socket.read(into: buffer) {
      case .bytes(let count): unsafe pump(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
      case .wouldBlock: return stage == .open
      case .endOfStream:
        lose("the service ended the connection without a word")
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
        // What OpenSSL has to say about it, the alert, is still to be sent.
        writeOutput()
        return fail(error)
      }
    }
  }

  private func fail(_ error: TLSError) {
    switch error {
    case .certificateRejected: end(.failed(LinkFailure(error)))
    // RFC 8446, section 6.2: a server says these about a client's certificate, while the handshake lasts for it. This
    // side may have been done with it already, and have written.
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

  /// Nil: six bytes that are no packet.
  private func heard(_ said: BinaryErrorPacket?) {
    let verdict = said.map { lane.queue.received($0) } ?? lane.queue.receivedNonsense()
    if verdict != .goOn { leave(verdict) }
  }

  /// The service has said its last.
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

  /// Writes what the queue has, as far as the socket takes it.
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
    // More than others should wait for: the loop comes back at once, as the socket is writable.
    updateInterest(lane.queue.wantsWrite)
  }

  /// False when there was nothing more.
  private func encryptRecord() throws(TLSError) -> Bool {
    guard let run = lane.queue.nextRecord(limit: TLSBuffers.recordBytes) else { return false }
    let (buffers, tls, memory) = (owner.buffers, tls, lane.queue.arena.bytes)
    try unsafe memory.span.extracting(run).withUnsafeBytes { (frames) throws(TLSError) in
      try unsafe tls.write(frames, buffers: buffers)
    }
    records.add(through: lane.queue.next, pendingBytes: buffers.outputCount)
    return true
  }

  /// Moves the ciphertext out of the shared buffer, to the socket as far as it takes it.
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

  /// Nothing more can be written. What came before the reset is still to be read, and says more than the reset does.
  private func breakOff() {
    guard !isBroken else { return }
    isBroken = true
    // Not from inside the reading that this may have come from.
    updateInterest(false)
  }

  private func updateInterest(_ writing: Bool) {
    guard stage != .closed else { return }
    socket.setInterest(reading: true, writing: !isBroken && (writing || !unsent.isEmpty))
  }

  // MARK: How far it has come

  private func noteHandedOver() {
    if let place = records.handedOver(unsentBytes: unsent.count) {
      lane.queue.handedOver(through: place)
    }
  }

  /// Looks what the peer's system has, and accepts what the service is silent about.
  private func look(nowMilliseconds: UInt64) {
    // A packet that lies there unread would turn silence into a lie.
    guard readAll(), isOpen else { return }
    if let waiting = socket.unacknowledgedByteCount,
      let place = records.reached(unacknowledgedBytes: unsent.count + waiting)
    {
      lane.queue.reached(through: place, nowMilliseconds: nowMilliseconds)
    }
    lane.queue.confirmSilent(nowMilliseconds: nowMilliseconds)
  }

  /// To be called several times a second.
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

  /// Ends a connection that has nothing open: close_notify, and the socket is closed once it is out.
  func goodbye(nowMilliseconds: UInt64) {
    guard isOpen else { return abandon() }
    tls.close(buffers: owner.buffers)
    writeOutput()
    guard isOpen else { return abandon() }
    stage = .closing
    deadlineMilliseconds = nowMilliseconds + Self.closingMilliseconds
    if unsent.isEmpty { end(.finished) }
  }

  /// Ends the link without telling anybody.
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
