import ApusLoop
import ApusTLS

/// What a client's links share, and where they report.
protocol LinkOwner: AnyObject {
  var loop: EventLoop { get }
  var buffers: TLSBuffers { get }
  var receiveBuffer: UnsafeMutableRawBufferPointer { get }
  /// The handshake is complete. Returns the session for the link's bytes.
  func linkOpened(_ link: Link) -> ProviderSession
  /// Bytes arrived for the session.
  func linkProgressed(_ link: Link, _ session: ProviderSession)
  /// The link has ended. `session` is nil if it was never open.
  func linkEnded(_ link: Link, _ session: ProviderSession?, _ failure: LinkFailure)
}

/// Why a link ended.
struct LinkFailure: Error {
  var text: String
  /// Whether another attempt would fail in the same way.
  var isFinal = false

  init(_ text: String) { self.text = text }

  init(_ error: SocketError) { text = error.description }

  /// An `errno` of an open connection.
  init(systemError code: Int32) {
    text = "the connection broke: \(errorText(code))"
  }

  init(_ error: TLSError) {
    switch error {
    case .certificateRejected(let reason):
      text = "the service's certificate is not trusted: \(reason)"
      isFinal = true
    case .noApplicationProtocol:
      text = "the service does not speak HTTP/2 (ALPN h2)"
      isFinal = true
    case .alertReceived:
      text = "the service refused the TLS connection: \(error)"
      isFinal = true
    case .truncated: text = "the service closed the connection"
    default: text = error.description
    }
  }

  /// The combined failure of a round over all addresses of a host. Each reason appears once, since the addresses of a
  /// service mostly fail alike.
  static func sum(of failures: [LinkFailure], host: String) -> LinkFailure {
    guard !failures.isEmpty else { return LinkFailure("\(host) has no address") }
    var texts: [String] = []
    for failure in failures where !texts.contains(failure.text) { texts.append(failure.text) }
    var sum = LinkFailure(texts.joined(separator: "; "))
    sum.isFinal = failures.allSatisfy(\.isFinal)
    return sum
  }
}
