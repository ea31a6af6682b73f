import ApusAdmin
import ApusCore
import ApusDirectory
import ApusLog
import ApusLoop
import ApusModel
import ApusTLS
import ApusWire

// Connections that another node of the cluster has made.

/// What another node uses a connection for that is not a client's.
enum LinkUse {
  case notifications
  case administration
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

  /// From now on this is the connection of a client that the other node has accepted. False, and the connection is to
  /// be closed, if the service has no such listener, or the client's address has too many connections.
  ///
  /// - Parameter rest: What the client has sent.
  func stand(for client: ForwardedPeer, rest: [UInt8]) -> Bool {
    let address = SocketAddress(client.address)
    guard
      let listener = table.host?.listener(
        client.listener, client.environment, ordinal: Int(client.ordinal)),
      table.reassign(self, to: listener, client: address)
    else { return false }
    let name = String(decoding: client.applicationProtocol, as: UTF8.self)
    tls.represent(
      RepresentedPeer(
        applicationProtocol: name.isEmpty ? nil : name,
        certificateDER: client.certificateDER.isEmpty ? nil : client.certificateDER))
    goOnEstablished()
    unsafe rest.withUnsafeBytes { bytes in
      if !isLeaving { unsafe received(bytes) } else { unsafe untrusted.append(bytes) }
    }
    markDirty()
    return true
  }

  /// The input has ended, without a word from the peer if this is the connection of a client at another node: then that
  /// node stops, and the client is to learn it as if this one did.
  func inputEnded() {
    guard tls.isRepresented else { return peerFinished() }
    guard !isPeerFinished else { return }
    if awaitsConfirmation { return abort() }
    inputEndedAtEdge()
    if !isLeaving { driver?.drain() }
    markDirty()
  }

  /// Whether another node has the client's connection, and must say with close_notify that the client has everything.
  /// If the link ends without it, the node was killed, or its client is gone.
  var isConfirmedByNode: Bool { tls.isRepresented && awaitsConfirmation }

  /// Whether that word is in `input`, which is discarded otherwise.
  func hasLastWord(_ input: UnsafeRawBufferPointer) -> Bool {
    let buffers = context.tlsBuffers
    unsafe tls.provide(input, buffers: buffers)
    defer { writeOutput() }
    while true {
      switch tls.read(buffers: buffers) {
      case .plaintext, .handshakeCompleted: continue
      case .closedByPeer: return true
      case .needsInput, .failed: return false
      }
    }
  }

  /// The other node uses the connection for itself.
  ///
  /// - Parameter unread: What came behind the purpose.
  func beginLink(_ use: LinkUse, unread: [UInt8]) {
    guard becomeTrusted(as: .node) else { return close() }
    if let driver = table.host?.beginLink(of: self, use, unread: unread) { begin(driver) }
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
