import COpenSSL

extension Certificate {
  package enum Purpose: Sendable {
    case client
    case server
    /// For issuing certificates.
    case authority
  }

  /// Whether one of `authorities` issued the certificate, directly or through `intermediates`, for that purpose. The
  /// caller compares times.
  package func leads(
    to authorities: [Certificate], through intermediates: [Certificate] = [], for purpose: Purpose
  ) -> Bool {
    guard let leaf = try? X509Handle(der: der.span) else { return false }
    return authorities.contains { authority in
      guard let issuer = try? X509Handle(der: authority.der.span) else { return false }
      return leaf.leads(to: issuer, through: intermediates, for: purpose)
    }
  }

  /// Identifies an authority: the first bytes of the SHA-256 over its name and key. A renewed certificate of the same
  /// authority has the same mark, because it verifies the same certificates.
  package var authorityMark: UInt64 {
    let nameAndKey = subjectDER + spkiDER
    return SHA256Digest(of: nameAndKey.span).words.0
  }

  /// Whether its issuer name is that of `authority`. The signature may still be another authority's.
  package func names(_ authority: Certificate) -> Bool { issuerDER == authority.subjectDER }

  /// Whether issuer and subject have the same name, as in roots.
  package var isSelfIssued: Bool { issuerDER == subjectDER }
}

extension X509Handle {
  /// RFC 5280, section 6, by OpenSSL: signature, constraints and purpose, with `issuer` as the only anchor. Times were
  /// compared before, because OpenSSL treats the last second of a certificate as expired.
  func leads(
    to issuer: borrowing X509Handle, through intermediates: [Certificate] = [],
    for purpose: Certificate.Purpose
  ) -> Bool {
    defer { OpenSSL.clearErrors() }
    guard let store = unsafe X509_STORE_new() else { return false }
    defer { unsafe X509_STORE_free(store) }
    guard let context = unsafe X509_STORE_CTX_new() else { return false }
    defer { unsafe X509_STORE_CTX_free(context) }
    let between = unsafe OPENSSL_sk_new_null()
    defer { unsafe OPENSSL_sk_free(between) }
    // The stack owns nothing, so the handles must outlive the verification.
    let owners = intermediates.compactMap { CertificateOwner($0) }
    for owner in owners { unsafe OPENSSL_sk_push(between, UnsafeRawPointer(owner.handle)) }
    let outcome = withExtendedLifetime(owners) {
      guard unsafe X509_STORE_add_cert(store, issuer.handle) == 1,
        unsafe X509_STORE_CTX_init(context, store, handle, between) == 1,
        let parameters = unsafe X509_STORE_CTX_get0_param(context),
        unsafe X509_VERIFY_PARAM_set_purpose(parameters, purpose.number) == 1,
        // The authority is trusted whether or not it is self-signed.
        unsafe X509_VERIFY_PARAM_set_flags(
          parameters, UInt(X509_V_FLAG_PARTIAL_CHAIN | X509_V_FLAG_NO_CHECK_TIME)) == 1
      else { return Int32(0) }
      return unsafe X509_verify_cert(context)
    }
    return outcome == 1
  }
}

/// Keeps an `X509` alive while a stack points to it.
@safe private final class CertificateOwner {
  let handle: OpaquePointer
  private let owned: X509Handle

  init?(_ certificate: Certificate) {
    guard let owned = try? X509Handle(der: certificate.der.span) else { return nil }
    unsafe handle = owned.handle
    self.owned = owned
  }
}

extension Certificate.Purpose {
  fileprivate var number: Int32 {
    switch self {
    case .client: X509_PURPOSE_SSL_CLIENT
    case .server: X509_PURPOSE_SSL_SERVER
    case .authority: X509_PURPOSE_ANY
    }
  }
}
