/// Why a context could not be made, or a connection ended.
package enum TLSError: Error, Equatable, Sendable {
  /// A context cannot be made of its configuration. Says which part was wrong, and OpenSSL's reason.
  case invalidConfiguration(String)
  /// This side gave the handshake up. `alert` is the one that stands in the output for the peer
  /// (RFC 8446, section 6.2), nil where there is none.
  case handshakeFailed(reason: String, alert: UInt8?)
  /// The sides have no application protocol in common, whichever of them said so (alert 120).
  case noApplicationProtocol
  /// This side does not accept the peer's certificate. OpenSSL's reason.
  case certificateRejected(String)
  /// The peer ended the connection with this fatal alert (RFC 8446, section 6).
  case alertReceived(UInt8)
  /// The peer broke the protocol after the handshake. OpenSSL's reason.
  case protocolError(String)
  /// The transport ended without close_notify: what was received may be incomplete.
  case truncated
  /// The connection takes no data: the handshake is not complete, it was closed, or it has failed.
  case notWritable
}

extension TLSError: CustomStringConvertible {
  package var description: String {
    switch self {
    case .invalidConfiguration(let text): text
    case .handshakeFailed(let reason, let alert):
      alert.map { "TLS handshake failed: \(reason) (sent alert \($0))" }
        ?? "TLS handshake failed: \(reason)"
    case .noApplicationProtocol: "no application protocol in common (ALPN)"
    case .certificateRejected(let reason): "the peer's certificate was rejected: \(reason)"
    case .alertReceived(let code): "the peer sent TLS alert \(code)"
    case .protocolError(let reason): "TLS protocol error: \(reason)"
    case .truncated: "the connection ended without close_notify"
    case .notWritable: "the connection takes no data"
    }
  }
}
