package import ApusDirectory
package import ApusLoop
package import ApusModel

/// A device's certificate request, with everything needed to decide on it.
package struct EnrolmentQuery: Sendable {
  package enum Kind: Sendable {
    /// The first certificate of a device.
    case enrolment(code: [UInt8], name: [UInt8], tags: [[UInt8]] = [])
    /// The successor of the certificate with which the device connected.
    case renewal(Renewal)
  }

  package struct Renewal: Sendable {
    var device: DeviceID
    /// SHA-256 of the device's public key.
    var keyFingerprint: [UInt8]
    var names: CertificateNames
    var certificate: PresentedCertificate
    /// Whether the certificate's authority is being replaced.
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
  /// PKCS #10, DER.
  var certificateRequest: [UInt8]
  /// The device's address without the port; for IPv6, its /64.
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
