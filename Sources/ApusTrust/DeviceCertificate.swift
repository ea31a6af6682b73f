package import ApusModel
import COpenSSL

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
        if chains(handle, to: try X509Handle(der: authority.der.span)) { return device }
      }
      throw DeviceCertificateFault.untrusted
    } catch let fault as DeviceCertificateFault {
      throw fault
    } catch {
      throw .malformed
    }
  }

  /// RFC 5280, section 6, by OpenSSL: signature, constraints and purpose, with `issuer` as the only anchor. The times
  /// were compared before: OpenSSL takes the last second of a certificate for one too late.
  private static func chains(
    _ leaf: borrowing X509Handle, to issuer: borrowing X509Handle
  ) -> Bool {
    defer { OpenSSL.clearErrors() }
    guard let store = unsafe X509_STORE_new() else { return false }
    defer { unsafe X509_STORE_free(store) }
    guard let context = unsafe X509_STORE_CTX_new() else { return false }
    defer { unsafe X509_STORE_CTX_free(context) }
    guard unsafe X509_STORE_add_cert(store, issuer.handle) == 1,
      unsafe X509_STORE_CTX_init(context, store, leaf.handle, nil) == 1,
      let parameters = unsafe X509_STORE_CTX_get0_param(context),
      unsafe X509_VERIFY_PARAM_set_purpose(parameters, X509_PURPOSE_SSL_CLIENT) == 1,
      // The authority is trusted because it is ours, whether or not it signed itself.
      unsafe X509_VERIFY_PARAM_set_flags(
        parameters, UInt(X509_V_FLAG_PARTIAL_CHAIN | X509_V_FLAG_NO_CHECK_TIME)) == 1
    else { return false }
    return unsafe X509_verify_cert(context) == 1
  }
}
