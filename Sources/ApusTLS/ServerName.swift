internal import COpenSSL
internal import CShims

/// The host name or IP address that a server's certificate must contain.
struct ServerName {
  private let text: String
  private let isAddress: Bool

  init(_ text: String) throws(TLSError) {
    // A name would be checked only up to a zero byte.
    guard !text.isEmpty, !text.utf8.contains(0), text.utf8.count <= 255 else {
      throw .invalidConfiguration("server name: not a valid host name")
    }
    guard let probe = unsafe X509_VERIFY_PARAM_new() else {
      throw .invalidConfiguration("out of memory")
    }
    defer { unsafe X509_VERIFY_PARAM_free(probe) }
    isAddress = unsafe X509_VERIFY_PARAM_set1_ip_asc(probe, text) == 1
    ERR_clear_error()
    self.text = text
  }

  /// The name for SNI; nil for an address (RFC 6066, section 3).
  var indication: String? { isAddress ? nil : text }

  /// Certificates must contain this name, and no other.
  func require(in parameters: OpaquePointer?) throws(TLSError) {
    unsafe X509_VERIFY_PARAM_set_hostflags(parameters, UInt32(X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS))
    // Nil and an empty name remove what was required before: both would be checked.
    let isSet =
      isAddress
      ? unsafe X509_VERIFY_PARAM_set1_host(parameters, nil, 0) == 1
        && X509_VERIFY_PARAM_set1_ip_asc(parameters, text) == 1
      : unsafe X509_VERIFY_PARAM_set1_ip(parameters, nil, 0) == 1
        && X509_VERIFY_PARAM_set1_host(parameters, text, 0) == 1
    guard isSet else {
      throw .invalidConfiguration("server name \"\(text)\": \(OpenSSLErrors.drain())")
    }
  }
}

extension TLSConnection {
  /// Replaces the context's server name, where one context serves connections to several names. For clients, before
  /// `startHandshake`, with a session of the same name or none.
  ///
  /// - Throws: `.invalidConfiguration` for a name that no certificate can contain.
  package func use(serverName text: String) throws(TLSError) {
    let name = try ServerName(text)
    guard let ssl = unsafe openSSL?.ssl else { return }
    precondition(!context.isServer, "a server is not told its name")
    ERR_clear_error()
    try unsafe name.require(in: SSL_get0_param(ssl))
    guard unsafe apus_tls_set_server_name(ssl, name.indication) else {
      throw .invalidConfiguration("server name \"\(text)\": \(OpenSSLErrors.drain())")
    }
  }
}
