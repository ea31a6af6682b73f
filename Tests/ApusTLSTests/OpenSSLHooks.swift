import COpenSSL
import CShims

@testable import ApusTLS

extension Side {
  private var ssl: OpaquePointer {
    if case .unbegun = connection.side, let begun = try? connection.begin() { return begun.ssl }
    guard let side = connection.openSSL else { preconditionFailure("OpenSSL was given up") }
    return side.ssl
  }

  /// Makes this side's records smaller than by default.
  func limitRecords(to bytes: Int) {
    SSL_ctrl(ssl, SSL_CTRL_SET_MAX_SEND_FRAGMENT, bytes, nil)
  }

  /// Sends a KeyUpdate before the next write, and requests the peer's.
  func updateKeys(asksBack: Bool = true) {
    SSL_key_update(
      ssl, asksBack ? SSL_KEY_UPDATE_REQUESTED : SSL_KEY_UPDATE_NOT_REQUESTED)
  }

  /// Starts a renegotiation with the next write, as this layer never does.
  func renegotiate() {
    SSL_clear_options(ssl, apus_tls_no_renegotiation)
    SSL_renegotiate(ssl)
  }
}

extension TLSContext {
  /// Allows only one suite under TLS 1.3.
  func useOnly(_ suite: RecordSuite) {
    precondition(SSL_CTX_set_ciphersuites(handle.pointer, suite.name) == 1)
  }
}

/// The identity's certificate in DER, from the output of OpenSSL's command line: base64 between the lines.
func der(_ identity: TLSIdentity) -> [UInt8] {
  let text = String(decoding: identity.certificateChainPEM, as: UTF8.self)
  let lines = text.split(separator: "\n").drop { !$0.hasPrefix("-----BEGIN") }.dropFirst()
    .prefix { !$0.hasPrefix("-----END") }
  let body = Array(lines.joined().utf8)
  var bytes = [UInt8](repeating: 0, count: body.count)
  let count = Int(EVP_DecodeBlock(&bytes, body, Int32(body.count)))
  // EVP_DecodeBlock counts the padding as bytes.
  return Array(bytes[..<(count - body.suffix(2).count { $0 == UInt8(ascii: "=") })])
}
