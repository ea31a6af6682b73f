import ApusCore
import ApusLoop
import ApusModel
import ApusTLS
import ApusWire

/// A client's connection at an edge: what comes from the client goes to the node that decides, and back.
///
/// It ends when either side does. The client connects again, as after any lost connection.
final class ForwardedConnection: ConnectionDriver {
  private var stream: LinkStream?
  /// For the node that decides.
  private var toNode: [UInt8] = []
  /// For the client.
  private var toClient: [UInt8] = []
  private var isDraining = false
  private var isOver = false

  /// - Parameter first: What the client has sent already, and no part of what `receive` gets.
  init?(_ connection: Connection, _ edge: Edge, first: [UInt8] = []) {
    super.init(connection)
    guard let target = edge.target else { return nil }
    connection.forwardedPeer.encode(to: &toNode)
    toNode += first
    do { stream = try LinkStream(target, context, user: self) } catch {
      connection.noteLinkFault("\(error)")
      return nil
    }
    connection.tls.forgetPeerCertificate()
    connection.schedule.deadlineSeconds = .max
  }

  // MARK: From the client

  override func receive(_ bytes: UnsafeRawBufferPointer) {
    unsafe toNode.append(contentsOf: bytes)
    connection.markDirty()
  }

  override var wantsPause: Bool {
    guard let stream else { return false }
    return isDraining || !stream.mayWrite || !toNode.isEmpty
  }

  /// The client has sent everything; what the node says about it still comes.
  override func peerFinished() { connection.markDirty() }

  // MARK: Both ways

  override func flush() -> Connection.Ending {
    if let stream, stream.mayWrite, !toNode.isEmpty {
      stream.write(toNode)
      toNode = []
    }
    if toNode.isEmpty {
      // A reader of feedback that has finished may still be cut off.
      if connection.isPeerFinished, !awaitsConfirmation { stream?.finish() }
      if isDraining { stream?.shut() }
    }
    if !toClient.isEmpty, connection.mayWrite { encrypt() }
    stream?.pause(!toClient.isEmpty)
    return isOver && toClient.isEmpty ? .now : .none
  }

  /// Old clients depend on where records end, and links join records.
  private func encrypt() {
    let count = toClient.count
    switch connection.listener.kind {
    case .gateway:
      // An error packet is a record of its own.
      let last = count - BinaryErrorPacket.byteCount
      let endsInError = last > 0 && toClient[last + 1] != 0
      encrypt(toClient[..<(endsInError ? last : count)])
      if endsInError { encrypt(toClient[last...]) }
    case .feedback:
      let size =
        Limits.feedbackTuplesPerWrite
        * (FeedbackTuple.headerBytes + DeviceToken.byteCount)
      for start in stride(from: 0, to: count, by: size) {
        encrypt(toClient[start..<min(start + size, count)])
      }
    case .provider, .courier, .channels, .link: connection.encrypt(toClient, count: count)
    }
    toClient = []
  }

  private func encrypt(_ part: ArraySlice<UInt8>) {
    let bytes = Array(part)
    connection.encrypt(bytes, count: bytes.count)
  }

  private func endStream() {
    stream?.close()
    stream = nil
    isOver = true
  }

  // MARK: Time and the end

  /// A node that is frozen or cut off would leave the client waiting.
  override func linkTargetChanged(_ edge: Edge) {
    guard let stream, !stream.isCurrent(edge) else { return }
    stream.abort()
    linkLost("another node decides now")
  }

  /// The service shuts down: the node that decides ends the connection, in its protocol's way.
  override func drain() {
    connection.readBeforeDrain()
    isDraining = true
    if stream?.isOpen != true { endStream() }
    connection.markDirty()
  }

  /// Feedback counts as delivered only if its reader has it.
  override var awaitsConfirmation: Bool { connection.listener.kind == .feedback }

  override func connectionClosed(_ end: Connection.End) {
    switch end {
    case .peerFinished, .timedOut(isTaken: true): stream?.close()
    case .timedOut(isTaken: false), .cut: stream?.abort()
    }
    stream = nil
  }
}

extension ForwardedConnection: LinkStreamUser {
  func linkOpened() { connection.markDirty() }

  func linkReceived(_ bytes: Span<UInt8>) {
    toClient.append(bytes)
    connection.markDirty()
  }

  func linkDrained() { connection.markDirty() }

  func linkFinished() {
    isOver = true
    connection.markDirty()
  }

  func linkLost(_ fault: String) {
    connection.noteLinkFault(fault)
    stream = nil
    isOver = true
    connection.markDirty()
  }
}
