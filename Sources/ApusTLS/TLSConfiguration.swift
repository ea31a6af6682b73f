/// A version of the protocol; the raw value is the one on the wire.
package enum TLSVersion: UInt16, Sendable, CaseIterable, Comparable {
  /// For old senders only: also lowers OpenSSL's security level to 0, as these versions sign with SHA-1.
  case v1_0 = 0x0301
  /// As `v1_0`.
  case v1_1 = 0x0302
  case v1_2 = 0x0303
  case v1_3 = 0x0304

  package static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
}

/// A certificate with its key.
package struct TLSIdentity: Sendable, Equatable {
  /// The certificate, then those that lead to its root, in order.
  package var certificateChainPEM: [UInt8]
  /// The certificate's key, not encrypted.
  package var privateKeyPEM: [UInt8]

  package init(certificateChainPEM: [UInt8], privateKeyPEM: [UInt8]) {
    self.certificateChainPEM = certificateChainPEM
    self.privateKeyPEM = privateKeyPEM
  }
}

/// What a listener speaks and demands.
package struct TLSServerConfiguration: Sendable {
  /// Whether clients are asked for a certificate.
  package enum ClientCertificates: Sendable {
    case notRequested
    /// Asked for, with the names of these authorities. None is accepted, for the caller to judge once the application
    /// protocol is known; one that does not verify ends the handshake with its alert.
    case requested(authoritiesPEM: [UInt8])
    /// As `requested`, but none at all ends the handshake too: with certificate_required (116) under TLS 1.3 and
    /// handshake_failure (40) before (RFC 8446, section 4.4.2.4; RFC 5246, section 7.4.6).
    case required(authoritiesPEM: [UInt8])
    /// As `requested`, and whatever is shown is taken, whoever issued it: for a stand-in in development alone.
    case taken(authoritiesPEM: [UInt8])
  }

  /// Whether the client certificate was revoked that this SHA-256 (32 bytes) names: the one over its DER, or the one
  /// over its issuer's name (DER) and its serial number (its magnitude, big-endian). Both are asked about.
  package typealias RevocationCheck = @Sendable (_ sha256: Span<UInt8>) -> Bool

  package var identity: TLSIdentity
  /// A second one with another kind of key: beside ECDSA one with RSA, for clients that know no ECDSA. OpenSSL chooses
  /// by the algorithms that the client offers, ECDSA first, and not by whom it trusts: issue both by one authority.
  /// Not used under the names of `serverNameIdentities`.
  package var alternateIdentity: TLSIdentity?
  /// Identities by the host name that a client asks for (SNI; case does not matter). Others get `identity`.
  package var serverNameIdentities: [String: TLSIdentity]
  package var minimumVersion: TLSVersion
  package var maximumVersion: TLSVersion
  package var clientCertificates: ClientCertificates
  /// Asked about the client's own certificate, never about those that lead to its root, once it has passed every
  /// other test: at each full handshake, and for each ticket, which is not resumed if the answer is true.
  /// True ends the handshake with certificate_revoked (44); the error is `.certificateRejected("certificate
  /// revoked")`. Under TLS 1.3 the client learns of it after its own handshake is complete.
  ///
  /// Called on the thread that drives the connection, by several at a time, and must not block: it looks into a
  /// snapshot, which may be another one at each call. Nil: none is revoked.
  package var isRevoked: RevocationCheck?
  /// True: one ticket for each handshake under TLS 1.3, and resumption by tickets under every version. False: no
  /// tickets and no resumption at all.
  package var sessionTickets: Bool
  /// Shared between the contexts of a process. Nil: keys of this context alone, never rotated.
  package var ticketKeys: TicketKeys?
  /// Seconds for which a ticket can be used. RFC 8446, section 4.6.1: at most 7 days.
  package var ticketLifetimeSeconds: Int
  /// ALPN names in order of preference.
  package var applicationProtocols: [String]
  package var acceptsClientsWithoutALPN: Bool
  /// Whether a connection keeps the memory in which OpenSSL puts records together (some 17 KB for those that come, as
  /// much for those that go) while it has none. For few connections that carry much: to make it for each small record
  /// and give it back is a tenth of what the record costs. Off for devices, which are many and say nothing for hours.
  package var keepsBuffers = false
  /// Whether `TLSConnection.compact()` does something.
  package var allowsCompaction = true
  /// The time by which certificates are judged, in seconds since 1970, for simulations with a clock of their own.
  /// Nil: the system's clock.
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

/// What a client speaks and whom it trusts.
package struct TLSClientConfiguration: Sendable {
  package enum TrustRoots: Sendable {
    /// The authorities of the operating system.
    case system
    /// These certificates only.
    case authorities(PEM: [UInt8])
  }

  package var trustRoots: TrustRoots
  package var identity: TLSIdentity?
  /// ALPN names in order of preference. Empty: no ALPN.
  package var applicationProtocols: [String]
  /// The host name or IP address that the server's certificate must be for. A host name is also sent as SNI
  /// (RFC 6066, section 3: addresses are not).
  package var serverName: String?
  package var verifiesHost: Bool
  package var minimumVersion: TLSVersion
  package var maximumVersion: TLSVersion
  /// Whether sessions are kept, for `TLSConnection.session`.
  package var keepsSessions: Bool
  /// As `TLSServerConfiguration.allowsCompaction`. Session tickets that come afterwards are not kept.
  package var allowsCompaction = false
  /// Accepts every certificate. For tests only: anyone between the two sides can read and change everything.
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
