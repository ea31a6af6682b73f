import ApusDirectory
import ApusLog
import ApusModel
import ApusTLS
import ApusTrust

/// Makes the listeners' TLS contexts from the files of the data directory.
///
/// New contexts are made whenever the files change, so that a renewed certificate or another authority applies from the
/// next handshake on, without a restart. Session tickets stay valid: all contexts share their keys.
struct ListenerContexts: Sendable {
  let directory: DataDirectory
  let configuration: ServerConfiguration
  let revocations: Revocations
  let ticketKeys: TicketKeys
  let certificates: ServerCertificates

  /// One for each listener of the configuration that has addresses, in order.
  func all(_ trust: Trust) throws -> [TLSContext] {
    let texts = ParsedTexts()
    return try configuration.openListeners.map {
      try context(for: $0, trusting: trust.authorities(of: $0.kind), parsing: texts)
    }
  }

  /// - Parameter other: presented in place of the listener's own certificate.
  func context(
    for listener: ListenerConfiguration, trusting trusted: Authorities,
    showing other: TLSIdentity? = nil, parsing texts: ParsedTexts = ParsedTexts()
  ) throws -> TLSContext {
    if listener.kind == .link { return try linkContext(texts) }
    let authorities = Array(trusted.certificates.map(\.pem).joined().utf8)
    let revocations = revocations
    let operators = listener.serverCertificate.flatMap(certificates.identity)
    var tls = TLSServerConfiguration(
      identity: try other ?? operators ?? directory.serverFiles.read(),
      clientCertificates: .requested(authoritiesPEM: authorities),
      isRevoked: { revocations.contain($0) },
      // A resumed session presents no certificate, so a context with another one needs ticket keys of its own.
      ticketKeys: other == nil ? ticketKeys : TicketKeys())
    tls.allowsCompaction = configuration.allowsCompactTLS
    switch listener.kind {
    case .provider, .channels:
      tls.applicationProtocols = ["h2"]
      tls.keepsBuffers = true
    case .courier:
      tls.applicationProtocols = courierProtocols
      // Four current provider libraries offer no ALPN, but every device must.
      tls.acceptsClientsWithoutALPN = false
    case .link: break
    case .gateway, .feedback:
      tls.clientCertificates = .required(authoritiesPEM: authorities)
      tls.keepsBuffers = listener.kind == .gateway
      // Two clients take a ticket for data and wait forever, a third reconnects needlessly.
      tls.sessionTickets = false
      if listener.allowsLegacyTLS {
        tls.minimumVersion = .v1_0
        // Nothing beside another certificate: clients that expect that one trust its authority.
        let presentsOwn = other == nil && operators == nil
        tls.alternateIdentity = try presentsOwn ? identityForOldClients(of: listener) : nil
      }
    }
    if listener.kind != .courier, configuration.interceptor?.isLenient == true {
      tls.clientCertificates = .taken(authoritiesPEM: authorities)
      tls.isRevoked = nil
    }
    return try TLSContext(server: tls, parsing: texts)
  }

  /// Only nodes of the cluster connect.
  private func linkContext(_ texts: ParsedTexts) throws -> TLSContext {
    guard let identity = configuration.link?.identity else {
      preconditionFailure("a listener for links needs an identity")
    }
    var tls = TLSServerConfiguration(
      identity: TLSIdentity(
        certificateChainPEM: identity.certificatePEM, privateKeyPEM: identity.keyPEM),
      minimumVersion: .v1_3,
      clientCertificates: .required(authoritiesPEM: identity.authorityPEM),
      applicationProtocols: [LinkTarget.applicationProtocol], acceptsClientsWithoutALPN: false)
    tls.keepsBuffers = true
    return try TLSContext(server: tls, parsing: texts)
  }

  /// Most clients that only support TLS 1.0 and 1.1 do not support ECDSA.
  private func identityForOldClients(of listener: ListenerConfiguration) throws -> TLSIdentity? {
    let files = directory.serverRSAFiles
    if files.exist { return try files.read() }
    configuration.log(
      .warning, "no RSA certificate: clients that do not support ECDSA cannot connect",
      .text("listener", listener.kind.rawValue),
      .text(
        "remedy",
        "have \(directory.authorityKey(.service)) sign one for the service's names; put it "
          + "in \(files.certificate) and its key in \(files.key)"))
    return nil
  }

  private var courierProtocols: [String] {
    var names = ["apus-courier/1"]
    if configuration.allowsInBandCertificates { names.append("apns-security-v3") }
    names.append("apns-security-v2")
    return names
  }
}
