import ApusCore
import ApusLoop
import ApusModel
import ApusTLS
import ApusWire

/// A client's connection at an edge: what comes from the client goes to the node that decides, and back.
///
/// ```
/// waiting --openLink--> opening --linkOpened--> open --> over
///    ^                     |
///    '------linkLost-------'
/// ```
///
/// While no node decides, and until a link to it is open, the client waits, for `Limits.linkWaitMilliseconds`, as a
/// push does: otherwise its handshake would have been in vain. Then the connection ends when either side does. The
/// client connects again, as after any lost connection.
final class ForwardedConnection: ConnectionDriver {
  private enum Stage {
    case waiting
    case opening
    case open
    case over
  }

  private let edge: Edge
  private var stage = Stage.waiting
  /// Whether it is in the queue of the worker's `LinkOpenings`.
  private var isQueued = false
  private let giveUpSeconds: UInt64
  private var stream: LinkStream?
  /// For the node that decides.
  private var toNode: [UInt8] = []
  /// For the client.
  private var toClient: [UInt8] = []
  private var isDraining = false

  /// - Parameter first: What the client has sent already, and no part of what `receive` gets.
  init(_ connection: Connection, _ edge: Edge, first: [UInt8] = []) {
    self.edge = edge
    giveUpSeconds = connection.context.nowSeconds + Limits.linkWaitMilliseconds / 1000
    super.init(connection)
    connection.forwardedPeer.encode(to: &toNode)
    toNode += first
    connection.tls.forgetPeerCertificate()
    connection.schedule.deadlineSeconds = giveUpSeconds
    requestLink()
  }

  // MARK: The link

  private func requestLink() {
    guard stage == .waiting, !isQueued, edge.target != nil else { return }
    isQueued = true
    context.linkOpenings.add(self)
  }

  /// The link could not be opened. The next attempt comes with a tick of the clock.
  private func waitAgain() {
    stage = .waiting
    setDeadline(context.nowSeconds + 1)
  }

  private func setDeadline(_ seconds: UInt64) {
    connection.schedule.deadlineSeconds = seconds
    connection.watch()
  }

  override func deadlineReached() {
    guard stage == .waiting else { return setDeadline(.max) }
    if context.nowSeconds >= giveUpSeconds { return finish() }
    setDeadline(giveUpSeconds)
    requestLink()
  }

  /// A node that is frozen or cut off would leave the client waiting.
  override func linkTargetChanged(_ edge: Edge) {
    switch stage {
    case .over: return
    case .waiting: requestLink()
    case .opening, .open:
      guard let stream, !stream.isCurrent(edge) else { return }
      stream.abort()
      linkLost("another node decides now")
      requestLink()
    }
  }

  /// Nothing more comes from the node, or goes there.
  private func finish() {
    stage = .over
    connection.markDirty()
  }

  /// Without the link the connection ends, once the client has what came.
  private func giveLinkUp() -> LinkStream? {
    if stage == .opening { context.linkOpenings.ended() }
    stage = .over
    return stream.take()
  }

  // MARK: From the client

  override func receive(_ bytes: UnsafeRawBufferPointer) {
    unsafe toNode.append(contentsOf: bytes)
    connection.markDirty()
  }

  override var wantsPause: Bool {
    guard stage != .over else { return false }
    guard let stream else { return true }
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
      // The end of a reader of feedback is told by how the link ends.
      if isDraining, !awaitsConfirmation { stream?.shut() }
    }
    if !toClient.isEmpty, connection.mayWrite { encrypt() }
    stream?.pause(!toClient.isEmpty)
    return stage == .over && toClient.isEmpty ? .now : .none
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

  // MARK: The end

  /// The service shuts down: the node that decides ends the connection, in its protocol's way.
  override func drain() {
    connection.readBeforeDrain()
    isDraining = true
    switch stage {
    case .open: break
    // How the link ends tells whether the client has everything.
    case .over where awaitsConfirmation: break
    case .waiting, .opening, .over: giveLinkUp()?.close()
    }
    connection.markDirty()
  }

  /// Feedback counts as delivered only if its reader has it.
  override var awaitsConfirmation: Bool { connection.listener.kind == .feedback }

  override func connectionClosed(_ end: Connection.End) {
    let stream = giveLinkUp()
    switch end {
    case .peerFinished, .timedOut(isTaken: true): stream?.close()
    case .timedOut(isTaken: false), .cut: stream?.abort()
    }
  }
}

extension ForwardedConnection: LinkOpener {
  func openLink() -> Bool {
    isQueued = false
    guard stage == .waiting, let target = edge.target else { return false }
    do {
      stream = try LinkStream(
        target, context, silenceMilliseconds: Limits.linkSilenceMilliseconds, user: self)
    } catch {
      connection.noteLinkFault("\(error)")
      waitAgain()
      return false
    }
    stage = .opening
    return true
  }
}

extension ForwardedConnection: LinkStreamUser {
  func linkOpened() {
    context.linkOpenings.ended()
    stage = .open
    setDeadline(.max)
    connection.markDirty()
  }

  func linkReceived(_ bytes: Span<UInt8>) {
    toClient.append(bytes)
    connection.markDirty()
  }

  func linkDrained() { connection.markDirty() }

  func linkFinished() {
    if stage == .opening { return linkLost("the node ended the connection") }
    finish()
  }

  func linkLost(_ fault: String) {
    connection.noteLinkFault(fault)
    let wasOpening = stage == .opening
    giveLinkUp()?.close()
    if wasOpening, !isDraining, context.nowSeconds < giveUpSeconds { return waitAgain() }
    connection.markDirty()
  }
}
