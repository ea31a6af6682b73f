package import ApusModel

/// Why a certificate does not admit a device.
package enum DeviceCertificateFault: Error, Sendable, Hashable {
  case malformed
  /// The subject's UID is not 16 hexadecimal digits, or O is not that of devices.
  case notADevice
  /// Neither P-256 nor RSA of 2048 bits or more.
  case weakKey
  /// It does not name TLS clients, or it is an authority itself.
  case purpose
  case notYetValid
  case expired
  /// The authority did not sign it, or is no longer valid itself.
  case untrusted
}

/// A device by its certificate.
package struct DeviceCertificate: Sendable, Hashable {
  package let certificate: Certificate
  package let deviceID: DeviceID

  /// Reads the device's id, and trusts whoever verified the chain.
  package init(_ certificate: Certificate) throws(DeviceCertificateFault) {
    guard certificate.subject.organization == CertificateAuthority.deviceOrganization,
      let text = certificate.subject.userID, let id = DeviceID(text: text)
    else { throw .notADevice }
    self.certificate = certificate
    deviceID = id
  }

  /// Reads and verifies a certificate that came without TLS around it, in the connect message of the device protocol's
  /// third version.
  ///
  /// - Parameters:
  ///   - authorities: Those that may have issued it; while one takes over from another there are two.
  ///   - now: Unix seconds.
  package static func verify(
    der: Span<UInt8>, authorities: [Certificate], now: Int64
  ) throws(DeviceCertificateFault) -> DeviceCertificate {
    do {
      let handle = try X509Handle(der: der)
      guard let certificate = handle.read() else { throw DeviceCertificateFault.malformed }
      let device = try DeviceCertificate(certificate)
      guard certificate.keyKind.isStrong else { throw DeviceCertificateFault.weakKey }
      guard certificate.namesClientAuth, !certificate.isAuthority else {
        throw DeviceCertificateFault.purpose
      }
      guard certificate.notBefore <= now else { throw DeviceCertificateFault.notYetValid }
      guard now <= certificate.notAfter else { throw DeviceCertificateFault.expired }
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
