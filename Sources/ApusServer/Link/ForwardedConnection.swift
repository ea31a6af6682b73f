import ApusCore
import ApusLoop
import ApusModel
import ApusTLS
import ApusWire

/// A client's connection at an edge: what comes from the client goes to the node that decides, and back.
///
/// It ends when either side does. When the link is lost, or the node stops, a device's connection goes on with the next
/// node; others end, and their clients connect again, as after any lost connection.
final class ForwardedConnection: ConnectionDriver {
  private var client: ForwardedClient?
  /// For the node that decides.
  private var toNode: [UInt8] = []
  /// For the client.
  private var toClient: [UInt8] = []
  /// Where records of old clients end in it.
  private var recordEnds: [Int] = []
  private var isOver = false
  private var isDraining = false

  /// - Parameters:
  ///   - device: Whose connection it is; nil for a legacy sender's.
  ///   - first: What the client has sent already, and no part of what `receive` gets.
  ///   - known: What another node has said of the device; nil if none has had it.
  init(
    _ connection: Connection, _ links: ClientLinks, device: DeviceID? = nil, first: [UInt8] = [],
    goingOn known: ClientState? = nil
  ) {
    super.init(connection)
    connection.schedule.deadlineSeconds = .max
    let client =
      if let known {
        ForwardedClient(
          self, goingOn: known, device: device, giveUpMilliseconds: links.resumeMilliseconds)
      } else {
        ForwardedClient(
          self, first, device: device, giveUpMilliseconds: links.giveUpMilliseconds)
      }
    self.client = client
    connection.tls.forgetPeerCertificate()
    links.add(client)
  }

  /// Nothing more comes from the node, or goes there.
  private func finish() {
    isOver = true
    connection.markDirty()
  }

  // MARK: From the client

  override func receive(_ bytes: UnsafeRawBufferPointer) {
    if toNode.isEmpty, let client, client.hasRoom {
      client.send(unsafe Span(_unsafeBytes: bytes))
    } else {
      unsafe toNode.append(contentsOf: bytes)
      connection.markDirty()
    }
  }

  override var wantsPause: Bool {
    guard !isOver else { return false }
    return isDraining || !toNode.isEmpty || client?.hasRoom != true
  }

  /// The client has sent everything; what the node says about it still comes.
  override func peerFinished() { connection.markDirty() }

  // MARK: Both ways

  override func flush() -> Connection.Ending {
    if let client { flush(to: client) }
    if !toClient.isEmpty, connection.mayWrite { encrypt() }
    return isOver && toClient.isEmpty ? .now : .none
  }

  private func flush(to client: ForwardedClient) {
    if !toNode.isEmpty, client.hasRoom {
      var bytes: [UInt8] = []
      swap(&bytes, &toNode)
      client.send(bytes.span)
    }
    // A reader of feedback that has finished may still be cut off, and how it ends is told afterwards.
    guard toNode.isEmpty, !awaitsConfirmation else { return }
    if connection.isPeerFinished { client.finish() }
    if isDraining { client.stop() }
  }

  private func encrypt() {
    var start = 0
    for end in recordEnds {
      encrypt(toClient[start..<end])
      start = end
    }
    if start == 0 {
      connection.encrypt(toClient, count: toClient.count)
    } else if start < toClient.count {
      encrypt(toClient[start...])
    }
    client?.passed(toClient.count)
    (toClient, recordEnds) = ([], [])
  }

  private func encrypt(_ part: ArraySlice<UInt8>) {
    let bytes = Array(part)
    connection.encrypt(bytes, count: bytes.count)
  }

  /// This node serves from now on: gives the device's connection to its service. Nil unless that can go on with it.
  ///
  /// - Parameter resume: Makes the state for it of what is known, and of what no node has dealt with.
  func moveOut(
    _ resume: (ClientState, [UInt8]) -> (any HandedOverState)?
  ) -> HandedOverConnection? {
    guard connection.isOpen, !isOver, !isDraining, toClient.isEmpty, recordEnds.isEmpty,
      let known = client?.takeState()
    else { return nil }
    client = nil
    guard let state = resume(known.state, known.unhandled + toNode) else {
      finish()
      return nil
    }
    return connection.moveOut(state)
  }

  // MARK: The end

  /// The service shuts down: the node that decides ends the connection, in its protocol's way.
  override func drain() {
    connection.readBeforeDrain()
    isDraining = true
    if client?.isOpen == false {
      client.take()?.end()
      finish()
    }
    connection.markDirty()
  }

  /// Feedback counts as delivered only if its reader has it.
  override var awaitsConfirmation: Bool { connection.listener.kind == .feedback }

  override func connectionClosed(_ end: Connection.End) {
    isOver = true
    guard let client = client.take() else { return }
    switch end {
    case .peerFinished, .timedOut(isTaken: true): client.finish()
    case .timedOut(isTaken: false), .cut: break
    }
    client.end()
  }
}

extension ForwardedConnection: ForwardedClientUser {
  var clientDescription: ForwardedPeer { connection.forwardedPeer }

  func clientOpened() { connection.markDirty() }

  func clientReceived(_ bytes: Span<UInt8>) {
    toClient.append(bytes)
    if connection.listener.kind != .courier { recordEnds.append(toClient.count) }
    connection.markDirty()
  }

  func clientHasRoom() { connection.markDirty() }

  func clientFinished() { finish() }

  func clientLost(_ fault: String) {
    client = nil
    finish()
  }
}
