package import ApusLoop
package import ApusTLS

/// A TLS record as received, after the handshake.
package struct RawTLSRecord: Sendable, Hashable {
  /// 23 for all records of TLS 1.3, and for data in earlier versions; 21 for alerts, 22 for handshake messages (RFC
  /// 5246, section 6.2.1).
  package var type: UInt8
  /// The decrypted data; empty for records without data, such as alerts and session tickets.
  package var plaintext: [UInt8]
  /// The number of the system call that read its last byte, from 1.
  package var read: Int
}

/// A blocking TLS client with deadlines, for exact bytes.
///
/// It sends exactly what a test sends, and knows no protocol above TLS.
package final class RawTLSClient {
  private let tcp: RawTCPClient
  private let tls: TLSConnection
  private let buffers = TLSBuffers()
  private var isEstablished = false
  /// Decrypted bytes that were not taken yet.
  package private(set) var inbox: [UInt8] = []
  /// How the peer ended the connection, once it has.
  package private(set) var end: RawEnd?
  /// Every record after the handshake, including the one with close_notify.
  package private(set) var records: [RawTLSRecord] = []
  /// The beginning of an incomplete record.
  private var partialRecord: [UInt8] = []
  private var readCount = 0

  /// Connects and completes the handshake.
  ///
  /// With TLS 1.3, a server checks this side's certificate after the handshake is complete on this side, so its alert
  /// appears with the first read.
  ///
  /// - Throws: `RawFault.ended` with the alert, if the server refuses the handshake.
  package convenience init(
    _ address: SocketAddress, _ configuration: TLSClientConfiguration,
    session: TLSSession? = nil, deadline: Deadline = Deadline()
  ) throws {
    try self.init(
      RawTCPClient(address, deadline: deadline), TLSContext(client: configuration),
      session: session, deadline: deadline)
  }

  package init(
    _ tcp: RawTCPClient, _ context: TLSContext, session: TLSSession? = nil,
    deadline: Deadline = Deadline()
  ) throws {
    self.tcp = tcp
    tls = try TLSConnection(context: context, session: session)
    tls.startHandshake(buffers: buffers)
    try sendOutput(deadline)
    while !isEstablished {
      if let end { throw RawFault.ended(end, awaiting: "the handshake was complete") }
      try pump(deadline, "the handshake was complete")
    }
  }

  package var negotiatedProtocol: String? { tls.negotiatedProtocol }
  package var version: TLSVersion? { tls.version }
  package var isResumed: Bool { tls.isResumed }
  /// The session that a later connection may resume.
  package var session: TLSSession? { tls.session }
  /// The service's own certificate.
  package var peerCertificateDER: [UInt8]? { tls.peerCertificateDER }

  // MARK: Output

  /// Encrypts and sends `bytes`, as records of up to 16 KiB.
  package func send(_ bytes: [UInt8], deadline: Deadline = Deadline()) throws {
    try encrypt(bytes)
    try sendOutput(deadline)
  }

  private func encrypt(_ bytes: [UInt8]) throws {
    try unsafe bytes.withUnsafeBytes { try unsafe tls.write($0, buffers: buffers) }
  }

  /// Sends each byte in its own record.
  package func sendByteByByte(_ bytes: [UInt8], deadline: Deadline = Deadline()) throws {
    for byte in bytes { try send([byte], deadline: deadline) }
  }

  private func sendOutput(_ deadline: Deadline) throws(RawFault) {
    let output = unsafe Array(buffers.output)
    buffers.removeAllOutput()
    if !output.isEmpty { try tcp.send(output, deadline: deadline) }
  }

  // MARK: Input

  /// Reads what is available from the socket; returns without bytes if the connection has ended.
  private func pump(_ deadline: Deadline, _ what: @autoclosure () -> String) throws(RawFault) {
    guard end == nil else { return }
    switch try tcp.receive(deadline: deadline, awaiting: what()) {
    case .bytes(let bytes):
      readCount += 1
      partialRecord += bytes
      decryptRecords()
      try sendOutput(deadline)
    case .ended(let how): end = how
    }
  }

  /// Decrypts one record at a time, to know the contents of each.
  private func decryptRecords() {
    let headerBytes = 5
    var offset = 0
    while end == nil, partialRecord.count >= offset + headerBytes {
      let length = Int(partialRecord[offset + 3]) << 8 | Int(partialRecord[offset + 4])
      let next = offset + headerBytes + length
      guard partialRecord.count >= next else { break }
      let wasEstablished = isEstablished
      let before = inbox.count
      decrypt(Array(partialRecord[offset..<next]))
      if wasEstablished {
        records.append(
          RawTLSRecord(
            type: partialRecord[offset], plaintext: Array(inbox[before...]), read: readCount))
      }
      offset = next
    }
    partialRecord.removeFirst(offset)
  }

  private func decrypt(_ bytes: [UInt8]) {
    unsafe bytes.withUnsafeBytes { bytes in
      unsafe tls.provide(bytes, buffers: buffers)
      while true {
        switch tls.read(buffers: buffers) {
        case .plaintext(let plaintext): unsafe inbox.append(contentsOf: plaintext)
        case .handshakeCompleted: isEstablished = true
        case .needsInput: return
        case .closedByPeer:
          end = .closeNotify
          return
        case .failed(let error):
          end = .failed(error)
          return
        }
      }
    }
  }

  /// Takes `count` bytes. Nil if the connection ended before them; throws if it ended between them.
  package func take(
    _ count: Int, deadline: Deadline = Deadline(),
    awaiting what: @autoclosure () -> String = "more bytes"
  ) throws(RawFault) -> [UInt8]? {
    while inbox.count < count {
      if let end {
        if inbox.isEmpty { return nil }
        throw .ended(end, awaiting: what())
      }
      try pump(deadline, what())
    }
    let taken = Array(inbox[..<count])
    inbox.removeFirst(count)
    return taken
  }

  /// All bytes until the connection ends, and how it ended.
  package func receiveAll(
    deadline: Deadline = Deadline()
  ) throws(RawFault) -> (bytes: [UInt8], end: RawEnd) {
    while true {
      if let end {
        defer { inbox = [] }
        return (inbox, end)
      }
      try pump(deadline, "the end of the connection")
    }
  }

  /// Whether nothing can be read, and the connection is open. Does not wait.
  package func isQuiet() throws -> Bool {
    do throws(RawFault) {
      try pump(Deadline(seconds: 0), "something to read")
    } catch {
      guard case .timedOut = error else { throw error }
    }
    return inbox.isEmpty && end == nil
  }

  /// Waits for a session ticket: with TLS 1.3, proof that the server has completed the handshake too.
  package func awaitTicket(deadline: Deadline = Deadline()) throws(RawFault) {
    while tls.session == nil {
      if let end { throw .ended(end, awaiting: "a session ticket") }
      try pump(deadline, "a session ticket")
    }
  }

  // MARK: The end

  /// Sends close_notify and FIN; data from the peer can still be read.
  package func finish() throws {
    tls.close(buffers: buffers)
    try sendOutput(Deadline())
    tcp.shutdownWrite()
  }

  /// Sends FIN without close_notify, as old providers do.
  package func shutdownWrite() { tcp.shutdownWrite() }

  /// How the TCP connection ended after close_notify.
  package func transportEnd(deadline: Deadline = Deadline()) throws(RawFault) -> RawEnd {
    while true {
      switch try tcp.receive(deadline: deadline, awaiting: "the end of the connection") {
      case .bytes: continue
      case .ended(let end): return end
      }
    }
  }

  /// Limits how much the kernel accepts from the peer.
  package func shrinkReceiveBuffer() { tcp.shrinkReceiveBuffer() }

  /// RST: as if this machine had disappeared.
  package func reset() { tcp.reset() }

  package func close() { tcp.close() }
}
