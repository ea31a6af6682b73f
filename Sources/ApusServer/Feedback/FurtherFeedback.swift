import ApusModel
import ApusWire

/// The rest of a list of dead tokens, of devices about which another node decides: that node's answer to a reader,
/// passed on.
final class FurtherFeedback {
  private let connection: Connection
  private let links: ClientLinks
  private var client: ForwardedClient?
  /// Each piece becomes a TLS record.
  private var pieces: [[UInt8]] = []
  private(set) var hasSpoken = false
  /// Whether everything has come, or nothing more will.
  private(set) var isOver = false

  init(_ connection: Connection, _ links: ClientLinks) {
    (self.connection, self.links) = (connection, links)
  }

  /// Asks the node, once. A node that is not reached in time has none: what it has stays in its list.
  func begin() {
    guard client == nil, !isOver else { return }
    let client = ForwardedClient(self, giveUpMilliseconds: links.giveUpMilliseconds)
    self.client = client
    links.add(client)
  }

  /// Whether anything is left to be written.
  var hasPieces: Bool { !pieces.isEmpty }

  /// Writes what has come, for as long as the connection takes it.
  func flush() {
    while connection.mayWrite, !pieces.isEmpty {
      let piece = pieces.removeFirst()
      connection.encrypt(piece, count: piece.count)
      client?.passed(piece.count)
    }
  }

  /// The reader's connection has ended.
  ///
  /// - Parameter isTaken: Whether the reader has everything that was written.
  func end(isTaken: Bool) {
    if isTaken, isOver, pieces.isEmpty { client?.finish() }
    client?.end()
    client = nil
  }
}

extension FurtherFeedback: ForwardedClientUser {
  var clientDescription: ForwardedPeer { connection.forwardedPeer }

  func clientOpened() {}

  func clientReceived(_ bytes: Span<UInt8>) {
    hasSpoken = true
    pieces.append(bytes.copied())
    connection.markDirty()
  }

  func clientHasRoom() {}

  func clientFinished() {
    isOver = true
    connection.markDirty()
  }

  func clientLost(_ fault: String) {
    client = nil
    clientFinished()
  }
}
