import ApusCore
import ApusDirectory
import ApusTrust

/// By what a connected device's certificate is judged again: when trust changes, and when its time is over. Its bytes,
/// which are some 500, are not kept for as long as the device is connected.
struct CertificateStanding: Sendable {
  var names: CertificateNames
  /// The last second in which it is valid, Unix seconds.
  var notAfter: Int64
  /// The mark of the authority that issued it; nil where it came by way of another one in between.
  var authority: UInt64?

  /// Why the certificate is good no longer.
  enum Fault: Equatable {
    case revoked
    case authorityRemoved
    case expired

    /// For the audit log: one of a closed list.
    var kind: String {
      switch self {
      case .revoked: "revoked"
      case .authorityRemoved: "authority removed"
      case .expired: "expired"
      }
    }

    /// For the device.
    var text: String {
      switch self {
      case .revoked: "the device's certificate is revoked: the device needs a new certificate"
      case .authorityRemoved:
        "the authority that issued the device's certificate is no longer trusted: "
          + "the device needs a new certificate"
      case .expired: "the device's certificate has expired: the device needs a new certificate"
      }
    }
  }

  /// - Parameters:
  ///   - hasLostAuthority: Whether an authority was removed since the last look. A device whose authority is not known
  ///     has to show its certificate again.
  ///   - nowSeconds: The time by which handshakes judge certificates.
  func fault(
    _ trust: Trust, hasLostAuthority: Bool = false, nowSeconds: Int64
  ) -> Fault? {
    if names.areRevoked(in: trust.directory) { return .revoked }
    if let authority {
      if !trust.deviceAuthorities.contain(authority) { return .authorityRemoved }
    } else if hasLostAuthority {
      return .authorityRemoved
    }
    return nowSeconds > notAfter ? .expired : nil
  }
}
