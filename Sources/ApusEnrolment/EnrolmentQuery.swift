package import ApusDirectory
package import ApusLoop
package import ApusModel

/// What a device asks for, with everything that is needed to decide.
package struct EnrolmentQuery: Sendable {
  package enum Kind: Sendable {
    /// A first certificate.
    case enrolment(code: [UInt8], name: [UInt8])
    /// One to follow that by which the device was let in.
    case renewal(Renewal)
  }

  package struct Renewal: Sendable {
    var device: DeviceID
    /// SHA-256 of the device's public key.
    var keyFingerprint: [UInt8]
    var names: CertificateNames
    var certificate: PresentedCertificate
    /// Whether the certificate is of an authority that is being replaced.
    var isOfOlderAuthority: Bool

    package init(
      device: DeviceID, keyFingerprint: [UInt8], names: CertificateNames,
      certificate: PresentedCertificate, isOfOlderAuthority: Bool
    ) {
      self.device = device
      self.keyFingerprint = keyFingerprint
      self.names = names
      self.certificate = certificate
      self.isOfOlderAuthority = isOfOlderAuthority
    }
  }

  var kind: Kind
  /// PKCS#10.
  var certificateRequest: [UInt8]
  /// Without the port, IPv6 by its /64.
  var site: SocketAddress
  var trust: Trust
  var nowSeconds: Int64

  package init(
    kind: Kind, certificateRequest: [UInt8], site: SocketAddress, trust: Trust, nowSeconds: Int64
  ) {
    self.kind = kind
    self.certificateRequest = certificateRequest
    self.site = site
    self.trust = trust
    self.nowSeconds = nowSeconds
  }
}
