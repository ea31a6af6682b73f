internal import COpenSSL
internal import CShims

/// Builds the `SSL_CTX` of a client.
struct ClientContextBuilder {
  struct Product {
    var context: ContextHandle
    var serverNameIndication: String?
  }

  let configuration: TLSClientConfiguration

  init(_ configuration: TLSClientConfiguration) { self.configuration = configuration }

  func build() throws(TLSError) -> Product {
    let context = try unsafe ContextHandle(
      method: TLS_client_method(), minimum: configuration.minimumVersion,
      maximum: configuration.maximumVersion, verificationTime: configuration.verificationTime)
    if let identity = configuration.identity { try context.use(identity, name: "client") }
    let protocols = try protocolWireForm(configuration.applicationProtocols)
    // Unlike other functions of OpenSSL, this one returns 0 on success.
    if !protocols.isEmpty,
      unsafe SSL_CTX_set_alpn_protos(context.pointer, protocols, UInt32(protocols.count)) != 0
    {
      throw .invalidConfiguration("application protocols: \(OpenSSLErrors.drain())")
    }
    try setTrust(context)
    let indication = try setServerName(context)
    setSessions(context)
    if configuration.allowsCompaction { unsafe apus_traffic_watch(context.pointer) }
    return Product(context: context, serverNameIndication: indication)
  }

  private func setTrust(_ context: ContextHandle) throws(TLSError) {
    guard !configuration.insecureSkipVerify else {
      unsafe SSL_CTX_set_verify(context.pointer, SSL_VERIFY_NONE, nil)
      return
    }
    unsafe SSL_CTX_set_verify(context.pointer, SSL_VERIFY_PEER, nil)
    switch configuration.trustRoots {
    case .authorities(let pem): _ = try context.trust(pem, name: "trust roots")
    case .system:
      guard unsafe SSL_CTX_set_default_verify_paths(context.pointer) == 1 else {
        throw .invalidConfiguration("the system's trust roots: \(OpenSSLErrors.drain())")
      }
    }
  }

  /// The name for SNI.
  private func setServerName(_ context: ContextHandle) throws(TLSError) -> String? {
    let verifies = configuration.verifiesHost && !configuration.insecureSkipVerify
    guard let name = configuration.serverName, !name.isEmpty else {
      if verifies { throw .invalidConfiguration("verifying the host requires serverName") }
      return nil
    }
    let serverName = try ServerName(name)
    if verifies { try unsafe serverName.require(in: SSL_CTX_get0_param(context.pointer)) }
    return serverName.indication
  }

  private func setSessions(_ context: ContextHandle) {
    guard configuration.keepsSessions else {
      unsafe apus_tls_set_session_cache_mode(context.pointer, Int(SSL_SESS_CACHE_OFF))
      unsafe SSL_CTX_set_options(context.pointer, apus_tls_no_ticket)
      return
    }
    unsafe apus_tls_set_session_cache_mode(
      context.pointer, Int(SSL_SESS_CACHE_CLIENT) | Int(SSL_SESS_CACHE_NO_INTERNAL))
    unsafe SSL_CTX_sess_set_new_cb(context.pointer) { ssl, session in
      guard let ssl = unsafe ssl, let session = unsafe session,
        let pointer = unsafe SSL_get_ex_data(ssl, 0)
      else { return 0 }
      let connection = unsafe Unmanaged<OpenSSLSide>.fromOpaque(pointer).takeUnretainedValue()
      connection.sessionArrived(unsafe TLSSession(owning: session))
      // 1: this code now owns the reference.
      return 1
    }
  }
}
