/// Why a context could not be created, or a connection ended.
package enum TLSError: Error, Equatable, Sendable {
  /// The configuration of a context is invalid. Names the part, and OpenSSL's reason.
  case invalidConfiguration(String)
  /// This side aborted the handshake. `alert` is the alert in the output for the peer (RFC 8446, section 6.2), nil if
  /// there is none.
  case handshakeFailed(reason: String, alert: UInt8?)
  /// The sides have no common application protocol, whichever of them reported it (alert 120).
  case noApplicationProtocol
  /// This side rejects the peer's certificate, with OpenSSL's reason.
  case certificateRejected(String)
  /// The peer ended the connection with this fatal alert (RFC 8446, section 6).
  case alertReceived(UInt8)
  /// The peer violated the protocol after the handshake, with OpenSSL's reason.
  case protocolError(String)
  /// The transport ended without close_notify: the received data may be incomplete.
  case truncated
  /// The connection accepts no data: the handshake is not complete, the connection was closed, or it failed.
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
    case .notWritable: "the connection accepts no data"
    }
  }
}
