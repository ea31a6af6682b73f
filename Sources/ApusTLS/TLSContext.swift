internal import COpenSSL
internal import CShims

/// Owns a reference to an `SSL_CTX`.
@safe final class ContextHandle {
  let pointer: OpaquePointer

  init(owning pointer: OpaquePointer) { unsafe self.pointer = pointer }
  deinit { unsafe SSL_CTX_free(pointer) }
}

/// Owns the data for the callbacks of a server.
@safe final class ServerPolicy {
  let pointer: OpaquePointer
  private let isRevoked: TLSServerConfiguration.RevocationCheck?
  let known = KnownCertificates()

  init(owning pointer: OpaquePointer, isRevoked: TLSServerConfiguration.RevocationCheck?) {
    unsafe self.pointer = pointer
    self.isRevoked = isRevoked
    // Unretained, here and below: this object owns both, so it outlives the C side.
    unsafe apus_tls_policy_set_known(
      pointer,
      { argument, digest, now in
        guard let argument = unsafe argument, let digest = unsafe digest else { return false }
        let known = unsafe Unmanaged<KnownCertificates>.fromOpaque(argument).takeUnretainedValue()
        return unsafe known.contain(digest, now: now)
      },
      { argument, digest, from, to in
        guard let argument = unsafe argument, let digest = unsafe digest else { return }
        let known = unsafe Unmanaged<KnownCertificates>.fromOpaque(argument).takeUnretainedValue()
        unsafe known.insert(digest, from: from, to: to)
      }, Unmanaged.passUnretained(known).toOpaque())
    guard isRevoked != nil else { return }
    unsafe apus_tls_policy_set_revocation(
      pointer,
      { argument, digest in
        // Without an answer the certificate counts as revoked.
        guard let argument = unsafe argument, let digest = unsafe digest else { return true }
        let policy = unsafe Unmanaged<ServerPolicy>.fromOpaque(argument).takeUnretainedValue()
        return unsafe policy.revokes(UnsafeBufferPointer(start: digest, count: 32))
      }, Unmanaged.passUnretained(self).toOpaque())
  }

  deinit { unsafe apus_tls_policy_free(pointer) }

  private func revokes(_ digest: UnsafeBufferPointer<UInt8>) -> Bool {
    unsafe isRevoked?(Span(_unsafeElements: digest)) ?? false
  }
}

/// The shared configuration of all connections of a listener, or to one server. Immutable, so workers share it.
package final class TLSContext: @unchecked Sendable {
  let isServer: Bool
  let handle: ContextHandle
  /// ALPN names in order of preference.
  package let applicationProtocols: [String]
  let applicationProtocolBytes: [[UInt8]]
  /// The host name that a client requests; nil for servers, and if the server is identified by its address.
  let serverNameIndication: String?
  let keepsSessions: Bool
  let allowsCompaction: Bool
  /// The substitute for TLS in simulations; nil otherwise.
  let plain: PlainConfiguration?

  // OpenSSL holds raw pointers to these, so they must live as long as the context, which each connection retains.
  private let policy: ServerPolicy?
  /// Peers' certificates that need not be verified again.
  package var knownCertificateCount: Int { policy?.known.count ?? 0 }
  private let ticketKeys: TicketKeys?
  private let namedContexts: [ContextHandle]

  /// - Parameter texts: Shared by contexts that have certificates or keys in common.
  /// - Throws: `.invalidConfiguration`.
  package init(
    server configuration: TLSServerConfiguration, parsing texts: ParsedTexts = ParsedTexts()
  ) throws(TLSError) {
    let made = try ServerContextBuilder(configuration, texts).build()
    isServer = true
    handle = made.context
    policy = made.policy
    namedContexts = made.named
    ticketKeys = made.ticketKeys
    applicationProtocols = configuration.applicationProtocols
    applicationProtocolBytes = configuration.applicationProtocols.map { Array($0.utf8) }
    serverNameIndication = nil
    keepsSessions = false
    allowsCompaction = configuration.allowsCompaction
    plain = nil
  }

  /// - Throws: `.invalidConfiguration`.
  package init(client configuration: TLSClientConfiguration) throws(TLSError) {
    let made = try ClientContextBuilder(configuration).build()
    isServer = false
    handle = made.context
    policy = nil
    namedContexts = []
    ticketKeys = nil
    applicationProtocols = configuration.applicationProtocols
    applicationProtocolBytes = configuration.applicationProtocols.map { Array($0.utf8) }
    serverNameIndication = made.serverNameIndication
    keepsSessions = configuration.keepsSessions
    allowsCompaction = configuration.allowsCompaction
    plain = nil
  }

  /// For simulations: unencrypted connections.
  ///
  /// - Throws: `.invalidConfiguration` if OpenSSL is out of memory.
  package init(plain configuration: PlainConfiguration) throws(TLSError) {
    if case .server = configuration.role { isServer = true } else { isServer = false }
    handle = try unsafe ContextHandle(
      method: TLS_method(), minimum: .v1_3, maximum: .v1_3, verificationTime: nil)
    policy = nil
    namedContexts = []
    ticketKeys = nil
    applicationProtocols = configuration.applicationProtocols
    applicationProtocolBytes = []
    serverNameIndication = nil
    keepsSessions = false
    allowsCompaction = false
    plain = configuration
  }
}

// MARK: - Shared by both sides

extension ContextHandle {
  /// Bytes of a peer's certificate chain: four RSA-4096 certificates and some more. OpenSSL's default is 100 KiB.
  private static let certificateListBytes = 32 * 1024
  /// Only AEADs with forward secrecy. AES-128 first: as secure here, with a cheaper key schedule.
  private static let ciphers =
    "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:"
    + "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:"
    + "ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305"
  /// TLS 1.0 and 1.1 have no AEAD and sign with SHA-1, which OpenSSL allows only at level 0.
  private static let legacyCiphers = ":ECDHE+AES:AES128-SHA:AES256-SHA:@SECLEVEL=0"
  private static let suites =
    "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"
  /// P-384 last: it is never preferred, but under TLS 1.2 this list also restricts the curves of certificates.
  private static let groups = "X25519:P-256:P-384"

  convenience init(
    method: OpaquePointer?, minimum: TLSVersion, maximum: TLSVersion, verificationTime: Int64?
  ) throws(TLSError) {
    ERR_clear_error()
    guard let pointer = unsafe SSL_CTX_new(method) else {
      throw .invalidConfiguration("TLS context: \(OpenSSLErrors.drain())")
    }
    unsafe self.init(owning: pointer)
    guard minimum <= maximum,
      unsafe apus_tls_set_versions(pointer, Int32(minimum.rawValue), Int32(maximum.rawValue))
    else {
      throw .invalidConfiguration("TLS versions from \(minimum) to \(maximum): empty range")
    }
    // These ciphers, suites and groups are constants: a failure means an OpenSSL built without them.
    let ciphers = minimum < .v1_2 ? Self.ciphers + Self.legacyCiphers : Self.ciphers
    guard unsafe SSL_CTX_set_cipher_list(pointer, ciphers) == 1,
      unsafe SSL_CTX_set_ciphersuites(pointer, Self.suites) == 1,
      unsafe apus_tls_set_groups(pointer, Self.groups)
    else {
      throw .invalidConfiguration("TLS ciphers: \(OpenSSLErrors.drain())")
    }
    // Sends the chain as configured: otherwise OpenSSL completes it from the authorities of the other side.
    unsafe apus_tls_set_mode(
      pointer,
      Int(SSL_MODE_RELEASE_BUFFERS) | Int(SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER)
        | Int(SSL_MODE_NO_AUTO_CHAIN))
    unsafe SSL_CTX_set_options(pointer, apus_tls_no_renegotiation | apus_tls_no_compression)
    unsafe apus_tls_set_certificate_list_limit(pointer, Self.certificateListBytes)
    unsafe apus_tls_note_alerts(pointer)
    if let verificationTime {
      unsafe X509_VERIFY_PARAM_set_time(SSL_CTX_get0_param(pointer), Int(verificationTime))
    }
  }

  /// May be called again for an identity with another type of key: OpenSSL holds one of each type.
  func use(
    _ identity: TLSIdentity, name: String, parsing texts: ParsedTexts = ParsedTexts()
  ) throws(TLSError) {
    let chain = try texts.certificates(identity.certificateChainPEM, name: "\(name) certificate")
    let key = try texts.privateKey(identity.privateKeyPEM, name: "\(name) key")
    // It would replace the first one.
    if let present = unsafe SSL_CTX_get0_privatekey(pointer),
      unsafe EVP_PKEY_get_base_id(present) == EVP_PKEY_get_base_id(key.handle)
    {
      throw .invalidConfiguration("\(name) key: has the same type as the first one")
    }
    guard unsafe SSL_CTX_use_certificate(pointer, chain[0].handle) == 1 else {
      throw .invalidConfiguration("\(name) certificate: \(OpenSSLErrors.drain())")
    }
    for certificate in chain.dropFirst() {
      guard unsafe apus_tls_add_chain_certificate(pointer, certificate.handle) else {
        throw .invalidConfiguration("\(name) certificate chain: \(OpenSSLErrors.drain())")
      }
    }
    guard unsafe SSL_CTX_use_PrivateKey(pointer, key.handle) == 1,
      unsafe SSL_CTX_check_private_key(pointer) == 1
    else {
      throw .invalidConfiguration(
        "\(name) key does not match the certificate: \(OpenSSLErrors.drain())")
    }
  }

  /// Trusts each certificate of `pem` on its own: an issuing authority does not need its root.
  func trust(
    _ pem: [UInt8], name: String, parsing texts: ParsedTexts = ParsedTexts()
  ) throws(TLSError) -> [Certificate] {
    let certificates = try texts.certificates(pem, name: name)
    let store = unsafe SSL_CTX_get_cert_store(pointer)
    for certificate in certificates {
      guard unsafe X509_STORE_add_cert(store, certificate.handle) == 1 else {
        throw .invalidConfiguration("\(name): \(OpenSSLErrors.drain())")
      }
    }
    unsafe X509_VERIFY_PARAM_set_flags(
      SSL_CTX_get0_param(pointer), UInt(X509_V_FLAG_PARTIAL_CHAIN))
    return certificates
  }
}

/// ALPN names as on the wire: each with its length before it. RFC 7301, section 3.1.
func protocolWireForm(_ names: [String]) throws(TLSError) -> [UInt8] {
  var bytes: [UInt8] = []
  for name in names {
    guard (1...255).contains(name.utf8.count) else {
      throw .invalidConfiguration("application protocol \"\(name)\": must have 1 to 255 bytes")
    }
    bytes.append(UInt8(name.utf8.count))
    bytes.append(contentsOf: name.utf8)
  }
  return bytes
}
