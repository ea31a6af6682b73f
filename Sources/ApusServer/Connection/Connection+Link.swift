import ApusAdmin
import ApusCore
import ApusDirectory
import ApusLog
import ApusLoop
import ApusModel
import ApusTLS
import ApusWire

// Connections that another node of the cluster has made.

/// What another node uses a connection for.
enum LinkUse {
  case notifications
  case clients
  case administration
  /// By a copy of the register, of the devices of that part.
  case channels(part: Int)
}

extension Connection {
  /// The node at the other end, by its certificate; nil if that is none of the cluster's.
  var linkedNode: NodeName? {
    guard let serving = context.configuration.link, let der = tls.peerCertificateDER,
      let node = LinkIdentity.node(certificateDER: der.span), serving.isMember(node)
    else {
      noteLinkFault("its certificate names no node of the cluster")
      return nil
    }
    return node
  }

  /// Reports why a link was refused or has failed.
  func noteLinkFault(_ fault: String, _ level: Log.Level = .warning) {
    logLimited(level, .linkFailed) {
      [.text("peer", peer.description), .text("reason", fault)]
    }
  }

  /// How the connection's client is described to another node.
  var forwardedPeer: ForwardedPeer {
    ForwardedPeer(
      listener: listener.kind, environment: listener.environment,
      ordinal: UInt8(clamping: listener.ordinal), address: peer.proxied,
      applicationProtocol: Array((tls.negotiatedProtocol ?? "").utf8),
      certificateDER: tls.peerCertificateDER ?? [])
  }

  /// Begins the protocol of a client whose connection another node has.
  ///
  /// - Parameter first: What the client has sent.
  func beginLinked(_ first: Span<UInt8>) {
    goOnEstablished()
    receive(first)
    if context.shutdown.isDraining(listener.kind), !isLeaving { drain() }
    markDirty()
  }

  /// Goes on with a device that another node served.
  func resumeLinked(_ device: any HandedOverState) {
    guard ownsLinked(device.device) else { return close() }
    guard becomeTrustedAsDevice() else { return close() }
    begin(table.host?.resumeProtocol(device, of: self))
    markDirty()
  }

  private func ownsLinked(_ device: DeviceID?) -> Bool {
    guard let device else { return false }
    let isHere = context.decides(about: device)
    if isHere, context.owns(device) { return true }
    noteLinkFault("another \(isHere ? "worker" : "node") decides about the device", .error)
    return false
  }

  /// The client's node has sent what came from the client. False if that is more than it may.
  func receive(_ linked: LinkedClient, _ bytes: Span<UInt8>) -> Bool {
    guard isOpen else { return true }
    if linked.holdsInput || wantsPause {
      pauseReading()
      return linked.hold(bytes)
    }
    receive(bytes)
    linked.read(bytes.count)
    return true
  }

  private func receive(_ bytes: Span<UInt8>) {
    guard isOpen, bytes.count > 0 else { return }
    unsafe bytes.withUnsafeBytes { bytes in
      if isLeaving { unsafe untrusted.append(bytes) } else { unsafe received(bytes) }
    }
    markDirty()
  }

  /// Reads what was held, after this turn's output.
  func goOnReadingHeld() {
    guard let linked, linked.holdsInput, !isReadingPaused else { return }
    let (table, entry) = (table, entry)
    context.loop.perform { table.awake(entry)?.readHeld() }
  }

  private func readHeld() {
    guard let linked, isOpen, !isReadingPaused else { return }
    let held = linked.takeHeld()
    receive(held.span)
    linked.read(held.count)
    if linked.isFinishHeld { peerFinished() }
  }

  /// Nothing more comes from the client; or its node says that a reader of feedback has everything.
  func clientFinished(_ linked: LinkedClient) {
    if !isOpen {
      discardedInputEnded()
    } else if linked.holdsInput {
      linked.isFinishHeld = true
    } else {
      peerFinished()
    }
  }

  /// The client's node stops: the client is to learn it as if this one did.
  func clientStops(_ linked: LinkedClient) {
    guard isOpen else { return }
    linked.isStopping = true
    if !isLeaving { driver?.drain() }
    markDirty()
  }

  /// The client is gone, or its node is no longer interested.
  func clientEnded() { abort(isPeerFinished && !awaitsConfirmation ? .peerFinished : .cut) }

  /// The connection would have moved to the worker that owns its device, which is this one.
  func goOnLinked() {
    guard let linked, let state = stay()?.leave() else { return abort() }
    if let device = state.device, !ownsLinked(device) { return close() }
    begin(table.host?.resumeProtocol(state, of: self))
    receive(state.unread.span)
    receive(untrusted.takeWaiting().span)
    if linked.isStopping || context.shutdown.isDraining(listener.kind) { driver?.drain() }
    if isPeerFinished { peerFinished() }
    markDirty()
  }

  /// The other node has said what it uses the connection for.
  ///
  /// - Parameters:
  ///   - worker: The index of the worker that is to have it; nil for any.
  ///   - unread: What came behind the purpose.
  func beginLink(_ use: LinkUse, at worker: Int? = nil, unread: [UInt8]) {
    guard becomeTrusted(as: .node) else { return close() }
    if let worker, worker != context.index { leave() }
    if let driver = table.host?.beginLink(of: self, use, at: worker, unread: unread) {
      begin(driver)
    }
  }
}

extension SocketAddress {
  /// As a PROXY header and a link carry it.
  var proxied: ProxiedAddress {
    switch family {
    case .ipv4: .ipv4(UInt32(truncatingIfNeeded: number.low), port: port)
    case .ipv6: .ipv6(high: number.high, low: number.low, port: port)
    }
  }
}
