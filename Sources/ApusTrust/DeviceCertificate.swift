package import ApusModel

/// Why a certificate does not authenticate a device.
package enum DeviceCertificateFault: Error, Sendable, Hashable {
  case malformed
  /// The subject's UID is not 16 hexadecimal digits, or its O is not that of devices.
  case notADevice
  /// Neither P-256 nor RSA of 2048 bits or more.
  case weakKey
  /// It is not for TLS clients, or is itself an authority.
  case purpose
  case notYetValid
  case expired
  /// The authority did not sign it, or has itself expired.
  case untrusted
}

/// A device's certificate.
package struct DeviceCertificate: Sendable, Hashable {
  package let certificate: Certificate
  package let deviceID: DeviceID

  /// Reads the device's id; the caller must have verified the chain.
  package init(_ certificate: Certificate) throws(DeviceCertificateFault) {
    guard certificate.subject.organization == CertificateAuthority.deviceOrganization,
      let text = certificate.subject.userID, let id = DeviceID(text: text)
    else { throw .notADevice }
    self.certificate = certificate
    deviceID = id
  }

  /// Reads and verifies a certificate that was sent outside TLS, in the connect message of the device protocol's third
  /// version.
  ///
  /// - Parameters:
  ///   - authorities: The possible issuers; two during a rotation.
  ///   - now: Unix seconds.
  package static func verify(
    der: Span<UInt8>, authorities: [Certificate], now: Int64
  ) throws(DeviceCertificateFault) -> DeviceCertificate {
    do {
      let certificate = try Certificate(der: der)
      let device = try DeviceCertificate(certificate)
      guard certificate.keyKind.isStrong else { throw DeviceCertificateFault.weakKey }
      guard certificate.namesClientAuth, !certificate.isAuthority else {
        throw DeviceCertificateFault.purpose
      }
      guard certificate.notBefore <= now else { throw DeviceCertificateFault.notYetValid }
      guard now <= certificate.notAfter else { throw DeviceCertificateFault.expired }
      let handle = try X509Handle(der: der)
      for authority in authorities where authority.isValid(now: now) {
        if handle.leads(to: try X509Handle(der: authority.der.span), for: .client) { return device }
      }
      throw DeviceCertificateFault.untrusted
    } catch let fault as DeviceCertificateFault {
      throw fault
    } catch {
      throw .malformed
    }
  }
}
