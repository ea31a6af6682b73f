import ApusCore
import ApusHTTP2
import ApusLoop
import ApusModel
import ApusTLS
import ApusWire

/// Requests of one provider at an edge that the node which decides answers as a whole, because they are about more than
/// one device. There they come from a connection of the provider's own, where its credential is checked again.
final class ForwardedRequests {
  /// Takes each answer; nil if there is none.
  typealias AnswerHandler = (HTTP2Request, HTTP2Response?) -> Void

  private let connection: Connection
  private let session = HTTP2ClientSession()
  private var client: ForwardedClient?
  private var waiting: [HTTP2Request] = []
  /// By the streams of `session`.
  private var open: [Int32: HTTP2Request] = [:]
  private let onAnswer: AnswerHandler

  /// Nil while no node decides.
  init?(_ connection: Connection, _ links: ClientLinks, onAnswer: @escaping AnswerHandler) {
    self.connection = connection
    self.onAnswer = onAnswer
    guard links.edge.target != nil else { return nil }
    let client = ForwardedClient(self, giveUpMilliseconds: links.giveUpMilliseconds)
    self.client = client
    links.add(client)
  }

  /// Whether a further request needs another connection.
  var hasEnded: Bool { client == nil }

  func send(_ request: HTTP2Request) {
    waiting.append(request)
    connection.markDirty()
  }

  func close() {
    if let client = client.take() {
      client.finish()
      client.end()
    }
    failAll()
  }

  /// Writes what there is to write. Called when the turn ends.
  func flush() {
    guard let client, client.isOpen else { return }
    while let request = waiting.first, session.availableStreams > 0,
      let streamID = session.submit(fields: request.fields, body: request.bodyBytes)
    {
      open[streamID] = request
      waiting.removeFirst()
    }
    var output: [UInt8] = []
    while client.hasRoom, session.wantsWrite {
      session.pendingOutput(into: &output, limit: TLSBuffers.recordBytes)
      if output.isEmpty { return }
      client.send(output.span)
      output.removeAll(keepingCapacity: true)
    }
  }

  private func takeAnswers() {
    while let response = session.nextResponse() {
      if let request = open.removeValue(forKey: response.streamID) {
        onAnswer(request, response.failure == nil ? response : nil)
      }
      session.release(response)
    }
  }

  private func failAll() {
    let left = open.values + waiting
    (open, waiting) = ([:], [])
    for request in left { onAnswer(request, nil) }
  }
}

extension ForwardedRequests: ForwardedClientUser {
  var clientDescription: ForwardedPeer { connection.forwardedPeer }

  func clientOpened() { connection.markDirty() }

  func clientReceived(_ bytes: Span<UInt8>) {
    let result = session.receive(bytes)
    client?.passed(bytes.count)
    takeAnswers()
    if case .failed = result { close() } else { connection.markDirty() }
  }

  func clientHasRoom() { connection.markDirty() }

  func clientFinished() { close() }

  func clientLost(_ fault: String) {
    client = nil
    failAll()
  }
}
