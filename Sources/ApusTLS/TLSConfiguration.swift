/// A TLS version; the raw value is the one on the wire.
package enum TLSVersion: UInt16, Sendable, CaseIterable, Comparable {
  /// Only for legacy senders: also lowers OpenSSL's security level to 0, because these versions sign with SHA-1.
  case v1_0 = 0x0301
  /// As `v1_0`.
  case v1_1 = 0x0302
  case v1_2 = 0x0303
  case v1_3 = 0x0304

  package static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
}

/// A certificate with its key.
package struct TLSIdentity: Sendable, Equatable {
  /// The certificate, then those up to its root, in order.
  package var certificateChainPEM: [UInt8]
  /// The certificate's key, unencrypted.
  package var privateKeyPEM: [UInt8]

  package init(certificateChainPEM: [UInt8], privateKeyPEM: [UInt8]) {
    self.certificateChainPEM = certificateChainPEM
    self.privateKeyPEM = privateKeyPEM
  }
}

/// The configuration of a listener.
package struct TLSServerConfiguration: Sendable {
  /// Whether clients are asked for a certificate.
  package enum ClientCertificates: Sendable {
    case notRequested
    /// Requested, with the names of these authorities. A client without a certificate passes, and the caller decides
    /// once the application protocol is known; a certificate that does not verify ends the handshake with its alert.
    case requested(authoritiesPEM: [UInt8])
    /// As `requested`, but a client without a certificate ends the handshake too: with certificate_required (116)
    /// under TLS 1.3 and handshake_failure (40) before (RFC 8446, section 4.4.2.4; RFC 5246, section 7.4.6).
    case required(authoritiesPEM: [UInt8])
    /// As `requested`, but a certificate from any issuer passes: only for the development service.
    case taken(authoritiesPEM: [UInt8])
  }

  /// Whether a client certificate was revoked, by its SHA-256 (32 bytes): the one of its DER, or the one of its
  /// issuer's name (DER) and its serial number (its magnitude, big-endian). It is called with both.
  package typealias RevocationCheck = @Sendable (_ sha256: Span<UInt8>) -> Bool

  package var identity: TLSIdentity
  /// A second identity with another type of key: RSA beside ECDSA, for clients without ECDSA. OpenSSL chooses by the
  /// algorithms that the client offers, ECDSA first, and not by the authorities that it trusts: let one authority
  /// issue both. Not used for the names of `serverNameIdentities`.
  package var alternateIdentity: TLSIdentity?
  /// Identities by the host name that a client requests (SNI, case-insensitive). Other names get `identity`.
  package var serverNameIdentities: [String: TLSIdentity]
  package var minimumVersion: TLSVersion
  package var maximumVersion: TLSVersion
  package var clientCertificates: ClientCertificates
  /// Called for the client's own certificate, never for those above it, once it has passed every other test: at each
  /// full handshake, and for each ticket, which is not resumed if the result is true. True ends the handshake with
  /// certificate_revoked (44); the error is `.certificateRejected("certificate revoked")`. Under TLS 1.3 the client
  /// learns of it after its own handshake is complete.
  ///
  /// Called on the thread that drives the connection, possibly by several at a time, and must not block: it reads a
  /// snapshot, which may differ between calls. Nil: none is revoked.
  package var isRevoked: RevocationCheck?
  /// True: one ticket per handshake under TLS 1.3, and resumption by tickets under every version. False: no tickets
  /// and no resumption.
  package var sessionTickets: Bool
  /// Shared between the contexts of a process. Nil: keys of this context only, never rotated.
  package var ticketKeys: TicketKeys?
  /// Lifetime of a ticket in seconds. RFC 8446, section 4.6.1: at most 7 days.
  package var ticketLifetimeSeconds: Int
  /// ALPN names in order of preference.
  package var applicationProtocols: [String]
  package var acceptsClientsWithoutALPN: Bool
  /// Whether a connection keeps OpenSSL's record buffers (some 17 KB in each direction) between records. For few
  /// connections with much traffic: allocating and freeing them for each small record is a tenth of its cost. Off for
  /// devices, which are many and silent for hours.
  package var keepsBuffers = false
  /// Whether `TLSConnection.compact()` has an effect.
  package var allowsCompaction = true
  /// The time for judging certificates, in seconds since 1970, for simulations with their own clock. Nil: the system's
  /// clock.
  package var verificationTime: Int64?

  package init(
    identity: TLSIdentity,
    alternateIdentity: TLSIdentity? = nil,
    serverNameIdentities: [String: TLSIdentity] = [:],
    minimumVersion: TLSVersion = .v1_2,
    maximumVersion: TLSVersion = .v1_3,
    clientCertificates: ClientCertificates = .notRequested,
    isRevoked: RevocationCheck? = nil,
    sessionTickets: Bool = true,
    ticketKeys: TicketKeys? = nil,
    ticketLifetimeSeconds: Int = 24 * 3600,
    applicationProtocols: [String] = [],
    acceptsClientsWithoutALPN: Bool = true,
    verificationTime: Int64? = nil
  ) {
    self.identity = identity
    self.alternateIdentity = alternateIdentity
    self.serverNameIdentities = serverNameIdentities
    self.minimumVersion = minimumVersion
    self.maximumVersion = maximumVersion
    self.clientCertificates = clientCertificates
    self.isRevoked = isRevoked
    self.sessionTickets = sessionTickets
    self.ticketKeys = ticketKeys
    self.ticketLifetimeSeconds = ticketLifetimeSeconds
    self.applicationProtocols = applicationProtocols
    self.acceptsClientsWithoutALPN = acceptsClientsWithoutALPN
    self.verificationTime = verificationTime
  }
}

/// The configuration of a client.
package struct TLSClientConfiguration: Sendable {
  package enum TrustRoots: Sendable {
    /// The authorities of the operating system.
    case system
    /// Only these certificates.
    case authorities(PEM: [UInt8])
  }

  package var trustRoots: TrustRoots
  package var identity: TLSIdentity?
  /// ALPN names in order of preference. Empty: no ALPN.
  package var applicationProtocols: [String]
  /// The host name or IP address that the server's certificate must match. A host name is also sent as SNI (RFC 6066,
  /// section 3: addresses are not).
  package var serverName: String?
  package var verifiesHost: Bool
  package var minimumVersion: TLSVersion
  package var maximumVersion: TLSVersion
  /// Whether sessions are kept, for `TLSConnection.session`.
  package var keepsSessions: Bool
  /// As `TLSServerConfiguration.allowsCompaction`. Session tickets received after compaction are not kept.
  package var allowsCompaction = false
  /// Accepts every certificate. Only for tests: anyone on the network can read and change everything.
  package var insecureSkipVerify: Bool
  /// As `TLSServerConfiguration.verificationTime`.
  package var verificationTime: Int64?

  package init(
    trustRoots: TrustRoots = .system,
    identity: TLSIdentity? = nil,
    applicationProtocols: [String] = [],
    serverName: String? = nil,
    verifiesHost: Bool = true,
    minimumVersion: TLSVersion = .v1_2,
    maximumVersion: TLSVersion = .v1_3,
    keepsSessions: Bool = true,
    insecureSkipVerify: Bool = false,
    verificationTime: Int64? = nil
  ) {
    self.trustRoots = trustRoots
    self.identity = identity
    self.applicationProtocols = applicationProtocols
    self.serverName = serverName
    self.verifiesHost = verifiesHost
    self.minimumVersion = minimumVersion
    self.maximumVersion = maximumVersion
    self.keepsSessions = keepsSessions
    self.insecureSkipVerify = insecureSkipVerify
    self.verificationTime = verificationTime
  }
}
