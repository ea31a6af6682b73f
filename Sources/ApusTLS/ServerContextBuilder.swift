internal import COpenSSL
internal import CShims

/// Builds the `SSL_CTX`s of a server: one for the default identity, and one for each named identity.
struct ServerContextBuilder {
  struct Product {
    var context: ContextHandle
    var named: [ContextHandle]
    var policy: ServerPolicy
    var ticketKeys: TicketKeys?
  }

  let configuration: TLSServerConfiguration
  private let texts: ParsedTexts

  init(_ configuration: TLSServerConfiguration, _ texts: ParsedTexts) {
    self.configuration = configuration
    self.texts = texts
  }

  func build() throws(TLSError) -> Product {
    let protocols = try protocolWireForm(configuration.applicationProtocols)
    if protocols.isEmpty && !configuration.acceptsClientsWithoutALPN {
      throw .invalidConfiguration("ALPN is required, but no application protocol is configured")
    }
    let ticketKeys = configuration.sessionTickets ? configuration.ticketKeys ?? TicketKeys() : nil
    guard
      let policyPointer = unsafe apus_tls_policy_new(
        protocols, protocols.count, !configuration.acceptsClientsWithoutALPN)
    else { throw .invalidConfiguration("out of memory") }
    let policy = unsafe ServerPolicy(owning: policyPointer, isRevoked: configuration.isRevoked)

    let context = try makeContext(
      configuration.identity, name: "server", policy: policy, ticketKeys: ticketKeys)
    if let alternate = configuration.alternateIdentity {
      try context.use(alternate, name: "alternate server", parsing: texts)
    }
    var named: [ContextHandle] = []
    for (name, identity) in configuration.serverNameIdentities {
      let other = try makeContext(
        identity, name: "server \(name)", policy: policy, ticketKeys: ticketKeys)
      guard unsafe apus_tls_policy_add_name(policy.pointer, name, other.pointer) else {
        throw .invalidConfiguration("out of memory")
      }
      named.append(other)
    }
    return Product(context: context, named: named, policy: policy, ticketKeys: ticketKeys)
  }

  private func makeContext(
    _ identity: TLSIdentity, name: String, policy: ServerPolicy, ticketKeys: TicketKeys?
  ) throws(TLSError) -> ContextHandle {
    let context = try unsafe ContextHandle(
      method: TLS_server_method(), minimum: configuration.minimumVersion,
      maximum: configuration.maximumVersion, verificationTime: configuration.verificationTime)
    try context.use(identity, name: name, parsing: texts)
    if configuration.keepsBuffers {
      unsafe apus_tls_clear_mode(context.pointer, Int(SSL_MODE_RELEASE_BUFFERS))
    }
    if configuration.allowsCompaction { unsafe apus_traffic_watch(context.pointer) }
    // Our order of ciphers, except that a device without AES hardware may prefer ChaCha20.
    unsafe SSL_CTX_set_options(
      context.pointer, apus_tls_server_preference | apus_tls_prioritize_chacha)
    unsafe apus_tls_policy_install(context.pointer, policy.pointer)
    try requestClientCertificates(context)
    try setTickets(context, ticketKeys, policy)
    return context
  }

  private func requestClientCertificates(_ context: ContextHandle) throws(TLSError) {
    let authorities: [UInt8]
    var mode = SSL_VERIFY_PEER
    switch configuration.clientCertificates {
    case .notRequested:
      unsafe SSL_CTX_set_verify(context.pointer, SSL_VERIFY_NONE, nil)
      return
    case .requested(let pem): authorities = pem
    case .required(let pem):
      authorities = pem
      mode |= SSL_VERIFY_FAIL_IF_NO_PEER_CERT
    case .taken(let pem): authorities = pem
    }
    let name = "client certificate authorities"
    for authority in try context.trust(authorities, name: name, parsing: texts) {
      guard unsafe SSL_CTX_add_client_CA(context.pointer, authority.handle) == 1 else {
        throw .invalidConfiguration("\(name): \(OpenSSLErrors.drain())")
      }
    }
    guard case .taken = configuration.clientCertificates else {
      unsafe SSL_CTX_set_verify(context.pointer, mode, nil)
      return
    }
    // Accepts the certificate whatever is wrong with it.
    unsafe SSL_CTX_set_verify(context.pointer, mode) { _, _ in 1 }
  }

  private func setTickets(
    _ context: ContextHandle, _ keys: TicketKeys?, _ policy: ServerPolicy
  ) throws(TLSError) {
    // No server-side cache: a session lives in its ticket.
    unsafe apus_tls_set_session_cache_mode(context.pointer, Int(SSL_SESS_CACHE_OFF))
    guard let keys else {
      unsafe SSL_CTX_set_options(context.pointer, apus_tls_no_ticket)
      unsafe SSL_CTX_set_num_tickets(context.pointer, 0)
      return
    }
    guard (1...7 * 24 * 3600).contains(configuration.ticketLifetimeSeconds) else {
      throw .invalidConfiguration(
        "ticket lifetime of \(configuration.ticketLifetimeSeconds) s: must be 1 s to 7 days")
    }
    unsafe keys.install(in: context.pointer)
    unsafe apus_tls_check_resumed_certificates(context.pointer, policy.pointer)
    unsafe SSL_CTX_set_num_tickets(context.pointer, 1)
    unsafe SSL_CTX_set_timeout(context.pointer, configuration.ticketLifetimeSeconds)
    let scope = sessionScope()
    guard unsafe SSL_CTX_set_session_id_context(context.pointer, scope, UInt32(scope.count)) == 1
    else { throw .invalidConfiguration("session scope: \(OpenSSLErrors.drain())") }
  }

  /// The scope of a ticket. Listeners share ticket keys, so a session must not be resumed on a listener that trusts
  /// other authorities, or has other protocols, without checking the client's certificate.
  private func sessionScope() -> [UInt8] {
    var description = Array("apus/1".utf8)
    switch configuration.clientCertificates {
    case .notRequested: description.append(0)
    case .requested(let authorities):
      description.append(1)
      description.append(contentsOf: authorities)
    case .required(let authorities):
      description.append(2)
      description.append(contentsOf: authorities)
    case .taken(let authorities):
      description.append(3)
      description.append(contentsOf: authorities)
    }
    for name in configuration.applicationProtocols {
      description.append(0)
      description.append(contentsOf: name.utf8)
    }
    var digest = [UInt8](repeating: 0, count: Int(SHA256_DIGEST_LENGTH))
    unsafe SHA256(description, description.count, &digest)
    return digest
  }
}
