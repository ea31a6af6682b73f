import ApusLoop
import ApusTLS

/// What the links of a client share, and what they report to.
protocol LinkOwner: AnyObject {
  var loop: EventLoop { get }
  var buffers: TLSBuffers { get }
  var receiveBuffer: UnsafeMutableRawBufferPointer { get }
  /// The handshake is complete: whose bytes go through the link from now on.
  func linkOpened(_ link: Link) -> ProviderSession
  /// Bytes came for the session.
  func linkProgressed(_ link: Link, _ session: ProviderSession)
  /// The link is over. `session` is nil when it was never open.
  func linkEnded(_ link: Link, _ session: ProviderSession?, _ failure: LinkFailure)
}

/// Why a link ended.
struct LinkFailure: Error {
  var text: String
  /// Whether another attempt would come to the same.
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

  /// What a round over all addresses of a host came to. Each reason once: the addresses of a service mostly fail alike.
  static func sum(of failures: [LinkFailure], host: String) -> LinkFailure {
    guard !failures.isEmpty else { return LinkFailure("\(host) has no address") }
    var texts: [String] = []
    for failure in failures where !texts.contains(failure.text) { texts.append(failure.text) }
    var sum = LinkFailure(texts.joined(separator: "; "))
    sum.isFinal = failures.allSatisfy(\.isFinal)
    return sum
  }
}
