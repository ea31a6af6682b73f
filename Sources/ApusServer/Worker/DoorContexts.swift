import ApusDirectory
import ApusLog
import ApusModel
import ApusTLS
import ApusTrust

/// Makes what the connections of a door have in common, from the files of the data directory.
///
/// Made anew whenever they change, so that a renewed certificate or another authority counts from the next handshake
/// on, without a restart. Tickets stay good: their keys are shared by all contexts.
struct DoorContexts: Sendable {
  let directory: DataDirectory
  let configuration: ServerConfiguration
  let revocations: Revocations
  let ticketKeys: TicketKeys

  /// One for each door of the configuration that has addresses, in order.
  func all(_ trust: Trust) throws -> [TLSContext] {
    try configuration.openDoors.map {
      try context(for: $0, trusting: trust.authorities(of: $0.kind))
    }
  }

  /// - Parameter other: What the door shows in place of its own certificate.
  func context(
    for door: DoorConfiguration, trusting trusted: Authorities, showing other: TLSIdentity? = nil
  ) throws -> TLSContext {
    let authorities = Array(trusted.certificates.map(\.pem).joined().utf8)
    let revocations = revocations
    var tls = TLSServerConfiguration(
      identity: try other ?? directory.serverFiles.read(),
      clientCertificates: .requested(authoritiesPEM: authorities),
      isRevoked: { revocations.contain($0) },
      // Whoever resumes a session is shown no certificate.
      ticketKeys: other == nil ? ticketKeys : TicketKeys())
    tls.allowsCompaction = configuration.allowsCompactTLS
    switch door.kind {
    case .provider:
      tls.applicationProtocols = ["h2"]
      tls.keepsBuffers = true
    case .courier:
      tls.applicationProtocols = courierProtocols
      // Four current provider libraries offer no ALPN; a device without it is none of ours.
      tls.acceptsClientsWithoutALPN = false
    case .gateway, .feedback:
      tls.clientCertificates = .required(authoritiesPEM: authorities)
      tls.keepsBuffers = door.kind == .gateway
      // Two clients take a ticket for data and wait for ever, a third reconnects for nothing.
      tls.sessionTickets = false
      if door.allowsLegacyTLS {
        tls.minimumVersion = .v1_0
        tls.alternateIdentity = try other == nil ? identityForOldClients(of: door) : nil
      }
    }
    if door.kind != .courier, configuration.rehearsal?.isLenient == true {
      tls.clientCertificates = .taken(authoritiesPEM: authorities)
      tls.isRevoked = nil
    }
    return try TLSContext(server: tls)
  }

  /// Clients of TLS 1.0 and 1.1 know no ECDSA more often than not.
  private func identityForOldClients(of door: DoorConfiguration) throws -> TLSIdentity? {
    let files = directory.serverRSAFiles
    if files.exist { return try files.read() }
    configuration.log(
      .warning, "no RSA certificate: clients that do not support ECDSA cannot connect",
      .text("door", door.kind.rawValue),
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
