import ApusCore
import ApusHTTP2
import ApusLoop
import ApusModel
import ApusTLS
import ApusWire

/// Requests of one provider at an edge that the node which decides answers as a whole, because they are about more than
/// one device. They go over a connection of the provider's own, where its credential is checked again.
final class ForwardedRequests {
  /// Takes each answer; nil if there is none.
  typealias AnswerHandler = (HTTP2Request, HTTP2Response?) -> Void

  private let connection: Connection
  private let session = HTTP2ClientSession()
  private var stream: LinkStream?
  private var preface: [UInt8] = []
  private var waiting: [HTTP2Request] = []
  /// By the streams of `session`.
  private var open: [Int32: HTTP2Request] = [:]
  private let onAnswer: AnswerHandler

  /// Nil while no node decides.
  init?(_ connection: Connection, _ edge: Edge, onAnswer: @escaping AnswerHandler) {
    self.connection = connection
    self.onAnswer = onAnswer
    guard let target = edge.target else { return nil }
    connection.forwardedPeer.encode(to: &preface)
    do {
      stream = try LinkStream(
        target, connection.context, silenceMilliseconds: Limits.linkWaitMilliseconds, user: self)
    } catch {
      return nil
    }
  }

  /// Whether a further request needs another connection.
  var hasEnded: Bool { stream == nil }

  func send(_ request: HTTP2Request) {
    waiting.append(request)
    connection.markDirty()
  }

  /// Another node decides.
  func linkTargetChanged(_ edge: Edge) {
    if let stream, !stream.isCurrent(edge) { close() }
  }

  func close() {
    stream?.close()
    stream = nil
    failAll()
  }

  /// Writes what there is to write. Called when the turn ends.
  func flush() {
    guard let stream, stream.isOpen else { return }
    stream.write(preface)
    preface = []
    while let request = waiting.first, session.availableStreams > 0,
      let streamID = session.submit(fields: request.fields, body: request.bodyBytes)
    {
      open[streamID] = request
      waiting.removeFirst()
    }
    var output: [UInt8] = []
    while stream.mayWrite, session.wantsWrite {
      session.pendingOutput(into: &output, limit: TLSBuffers.recordBytes)
      if output.isEmpty { return }
      stream.write(output)
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

extension ForwardedRequests: LinkStreamUser {
  func linkOpened() { connection.markDirty() }

  func linkReceived(_ bytes: Span<UInt8>) {
    let result = session.receive(bytes)
    takeAnswers()
    if case .failed = result { close() } else { connection.markDirty() }
  }

  func linkDrained() { connection.markDirty() }

  func linkFinished() { close() }

  func linkLost(_ fault: String) {
    stream = nil
    failAll()
  }
}
