import ApusModel
import ApusTLS

/// Receives the events of a provider's or a device's connection.
protocol ChannelOwner: AnyObject {
  /// The handshake is complete.
  func channelOpened(_ channel: ClientChannel)
  func channelReceived(_ channel: ClientChannel, _ bytes: [UInt8], wallMilliseconds: Int64)
  func channelEnded(_ channel: ClientChannel, _ end: ClientChannel.End)
}

/// A connection to the service from the client's side: plaintext in and out.
final class ClientChannel: LinkPeer {
  enum End {
    /// With close_notify: nothing is missing.
    case closed
    /// End of stream without close_notify.
    case truncated
    /// Refused, reset or timed out.
    case failed
  }

  private(set) var number = 0
  let listener: Int
  weak var owner: (any ChannelOwner)?
  private(set) var link: SimulatedLink?
  private let tls: TLSConnection
  private let buffers = TLSBuffers()
  private(set) var isOpen = false
  private(set) var isOver = false
  /// Whether the service's close_notify has arrived: nothing is missing, whatever becomes of the connection.
  private(set) var isClosedByService = false

  init(
    _ owner: any ChannelOwner, listener: Int, context: TLSContext, network: SimulatedNetwork
  ) throws {
    self.owner = owner
    self.listener = listener
    tls = try TLSConnection(context: context)
    let link = network.connect(self, listener: listener)
    number = link.number
    self.link = link
    network.timeline.after(seconds: 20) { [weak self] in
      if let self, !isOpen { end(.failed) }
    }
  }

  /// Whether the service's output was ever blocked by a peer that did not read.
  var wasBlocked: Bool { link?.wasBlocked ?? true }

  // MARK: From the network

  func linkConnected() {
    tls.startHandshake(buffers: buffers)
    writeOutput()
  }

  func linkReceived(_ bytes: [UInt8], wallMilliseconds: Int64) {
    unsafe bytes.withUnsafeBytes { bytes in
      unsafe tls.provide(bytes, buffers: buffers)
      read(wallMilliseconds)
    }
    writeOutput()
  }

  private func read(_ wallMilliseconds: Int64) {
    while !isOver {
      switch tls.read(buffers: buffers) {
      case .handshakeCompleted:
        isOpen = true
        owner?.channelOpened(self)
      case .plaintext(let bytes):
        owner?.channelReceived(
          self, unsafe Array(bytes), wallMilliseconds: wallMilliseconds)
      case .needsInput: return
      case .closedByPeer:
        isClosedByService = true
        return
      case .failed:
        end(.failed)
        return
      }
    }
  }

  func linkEnded() { end(isClosedByService ? .closed : .truncated) }

  func linkFailed() { end(isClosedByService ? .closed : .failed) }

  private func end(_ end: End) {
    guard !isOver else { return }
    isOver = true
    isOpen = false
    link?.closePeer(resets: end == .failed)
    link = nil
    owner?.channelEnded(self, end)
  }

  // MARK: From the owner

  func send(_ bytes: [UInt8]) {
    guard isOpen, !isOver, !bytes.isEmpty else { return }
    unsafe bytes.withUnsafeBytes { bytes in
      try? unsafe tls.write(bytes, buffers: buffers)
    }
    writeOutput()
  }

  private func writeOutput() {
    guard buffers.outputCount > 0 else { return }
    let output = unsafe Array(buffers.output)
    buffers.removeAllOutput()
    link?.write(output)
  }

  /// Announces the end of output, and waits for the service's end.
  func finish() {
    guard isOpen, !isOver else { return }
    tls.close(buffers: buffers)
    writeOutput()
    link?.finish()
  }

  /// Releases the connection, cleanly or with a reset. The owner gets no more events from it.
  func drop(resets: Bool) {
    guard !isOver else { return }
    if !resets, isOpen {
      tls.close(buffers: buffers)
      writeOutput()
    }
    isOver = true
    isOpen = false
    link?.closePeer(resets: resets)
    link = nil
  }

  /// The machine disappears without notice to the service.
  func vanish(probed: Bool) {
    guard !isOver else { return }
    isOver = true
    isOpen = false
    link?.losePeer(probed: probed)
    link = nil
  }
}
