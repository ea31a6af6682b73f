import ApusLoop
import ApusTLS
import Glibc

/// The delegate of a connection to the binary interface.
protocol BinaryLinkOwner: AnyObject {
  /// The TLS handshake is complete.
  func linkOpened(_ link: BinaryLink)
  /// Everything written was passed to the system. Called repeatedly while the link `isProducing`.
  func linkTakesMore(_ link: BinaryLink)
  func link(_ link: BinaryLink, received packet: BinaryPacket)
  /// The link has ended and its socket is closed. `failure` is nil if the service closed it properly.
  func linkEnded(_ link: BinaryLink, _ failure: String?)
}

/// An error packet: 8, a status, an identifier. Source: Binary Provider API, Table A-2.
struct BinaryPacket {
  var status: UInt8
  var identifier: UInt32
}

/// Buffers shared by all links of a loop.
@safe final class BinaryLinkMemory {
  let tls = TLSBuffers()
  let input: UnsafeMutableRawBufferPointer

  init() { unsafe input = .allocate(byteCount: 16_384, alignment: 64) }
  deinit { unsafe input.deallocate() }
}

/// A legacy sender's connection: socket and TLS. Confined to its loop.
final class BinaryLink: SocketHandler {
  private enum Stage {
    case connecting, handshaking, open, closed
  }

  /// The index of the link among those of its owner.
  let tag: Int
  /// Whether to call `linkTakesMore`.
  var isProducing = false { didSet { updateInterest() } }
  private unowned let owner: any BinaryLinkOwner
  private let memory: BinaryLinkMemory
  private let socket: Socket
  private let tls: TLSConnection
  private var stage = Stage.connecting
  private var unsent = OutputQueue()
  private var isShutting = false
  /// Bytes of an incomplete packet.
  private var partial: [UInt8] = []

  init(
    to endpoint: BinaryEndpoint, tag: Int = 0, source: SocketAddress? = nil, loop: EventLoop,
    memory: BinaryLinkMemory, owner: any BinaryLinkOwner
  ) throws {
    self.tag = tag
    self.owner = owner
    self.memory = memory
    tls = try TLSConnection(context: endpoint.context)
    socket = try Socket.connect(to: endpoint.address, from: source, loop: loop)
    socket.handler = self
    updateInterest()
  }

  /// The negotiated cipher; "?" before the handshake is complete.
  var cipher: String { tls.cipherName ?? "?" }

  // MARK: Writing

  /// Writes `plaintext` in TLS records of `recordBytes` each.
  func write(_ plaintext: Span<UInt8>, recordBytes: Int) {
    do throws(TLSError) {
      for start in stride(from: 0, to: plaintext.count, by: recordBytes) {
        let record = plaintext.extracting(start..<min(start + recordBytes, plaintext.count))
        try unsafe record.withUnsafeBytes { (bytes) throws(TLSError) in
          try unsafe tls.write(bytes, buffers: memory.tls)
        }
      }
    } catch {
      return end("\(error)")
    }
    writeOutput()
  }

  /// Sends close_notify after everything written, and closes the sending direction.
  func shut() {
    tls.close(buffers: memory.tls)
    isShutting = true
    writeOutput()
    if stage != .closed, unsent.isEmpty { socket.shutdownWrite() }
  }

  private func writeOutput() {
    guard memory.tls.outputCount > 0 else { return }
    defer { memory.tls.removeAllOutput() }
    guard stage != .closed else { return }
    // A failed write is not an error yet: the service may have sent a packet before it closed.
    if unsafe unsent.write(memory.tls.output, to: socket) == .blocked { updateInterest() }
  }

  func socketWritable() {
    if stage == .connecting { return connected() }
    if !unsent.isEmpty {
      switch unsent.writeWaiting(to: socket) {
      case .written: break
      case .queued, .blocked, .failed: return
      }
      if isShutting { socket.shutdownWrite() }
      updateInterest()
    }
    if isProducing { owner.linkTakesMore(self) }
  }

  private func connected() {
    let code = socket.connectError()
    guard code == 0 else { return end(systemError(code)) }
    stage = .handshaking
    updateInterest()
    tls.startHandshake(buffers: memory.tls)
    writeOutput()
  }

  private func updateInterest() {
    guard stage != .closed else { return }
    let isConnecting = stage == .connecting
    socket.setInterest(
      reading: !isConnecting, writing: isConnecting || isProducing || !unsent.isEmpty)
  }

  // MARK: Reading

  func socketReadable() {
    let input = unsafe memory.input
    switch unsafe socket.read(into: input) {
    case .bytes(let count): unsafe pump(UnsafeRawBufferPointer(rebasing: input[..<count]))
    case .wouldBlock: break
    case .endOfStream: end("the service ended the connection without close_notify")
    case .failed(let code): end(systemError(code))
    }
  }

  private func pump(_ input: UnsafeRawBufferPointer) {
    unsafe tls.provide(input, buffers: memory.tls)
    while true {
      switch tls.read(buffers: memory.tls) {
      case .handshakeCompleted:
        stage = .open
        owner.linkOpened(self)
      case .plaintext(let bytes): unsafe received(Span<UInt8>(_unsafeBytes: bytes))
      case .needsInput: return writeOutput()
      case .closedByPeer:
        if !isShutting { tls.close(buffers: memory.tls) }
        writeOutput()
        return end(nil)
      case .failed(let error):
        writeOutput()
        return end("\(error)")
      }
    }
  }

  private func received(_ bytes: Span<UInt8>) {
    for index in bytes.indices {
      partial.append(bytes[index])
      if partial.count < 6 { continue }
      let packet = BinaryPacket(
        status: partial[1],
        identifier: partial[2...].reduce(0) { $0 << 8 | UInt32($1) })
      guard partial[0] == 8 else {
        return end("the service sent something other than an error packet")
      }
      partial.removeAll(keepingCapacity: true)
      owner.link(self, received: packet)
    }
  }

  // MARK: The end

  private func systemError(_ code: Int32) -> String { unsafe String(cString: strerror(code)) }

  private func end(_ failure: String?) {
    guard stage != .closed else { return }
    stage = .closed
    socket.close()
    owner.linkEnded(self, failure)
  }
}
