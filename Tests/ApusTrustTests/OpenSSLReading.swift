import ApusModel
import COpenSSL

@testable import ApusTrust

// A certificate as OpenSSL reads it, to compare with.

extension X509Handle {
  /// What OpenSSL reads; nil if a required value cannot be read.
  func read() -> Certificate? {
    defer { OpenSSL.clearErrors() }
    guard let notBefore = X509Handle.unixSeconds(X509_get0_notBefore(handle)),
      let notAfter = X509Handle.unixSeconds(X509_get0_notAfter(handle)),
      let key = X509_get0_pubkey(handle),
      let name = X509_get_subject_name(handle),
      let issuer = X509_get_issuer_name(handle)
    else { return nil }
    // Also computes what the functions below return; -1 if an extension cannot be read.
    let authority = X509_check_ca(handle)
    guard X509_get_extension_flags(handle) & UInt32(EXFLAG_INVALID) == 0 else { return nil }
    let usage = X509_get_extended_key_usage(handle)
    let serialBytes = X509Handle.bytes(X509_get0_serialNumber(handle)) ?? []
    return Certificate(
      der: OpenSSL.encoded { i2d_X509(handle, $0) },
      subject: Self.subject(name),
      serial: Self.digits(of: serialBytes),
      notBefore: notBefore,
      notAfter: notAfter,
      keyKind: KeyKind(key),
      spkiDER: OpenSSL.encoded { i2d_X509_PUBKEY(X509_get_X509_PUBKEY(handle), $0) },
      isAuthority: authority == 1,
      issuerDER: OpenSSL.encoded { i2d_X509_NAME(issuer, $0) },
      serialBytes: serialBytes,
      subjectDER: OpenSSL.encoded { i2d_X509_NAME(name, $0) },
      subjectKeyID: X509Handle.bytes(X509_get0_subject_key_id(handle)),
      // All bits are set if the extension is absent.
      namesClientAuth: usage != .max && usage & UInt32(XKU_SSL_CLIENT) != 0,
      extensions: extensions())
  }

  private static func digits(of bytes: [UInt8]) -> String {
    String(
      decoding: bytes.drop { $0 == 0 }.flatMap { [hexDigit($0 >> 4), hexDigit($0 & 15)] },
      as: UTF8.self)
  }

  private func extensions() -> [Certificate.Extension] {
    var list: [Certificate.Extension] = []
    for index in 0..<max(X509_get_ext_count(handle), 0) {
      guard let entry = X509_get_ext(handle, index),
        let object = X509_EXTENSION_get_object(entry),
        let value = X509Handle.bytes(X509_EXTENSION_get_data(entry))
      else { continue }
      let content = UnsafeBufferPointer(
        start: OBJ_get0_data(object), count: OBJ_length(object))
      list.append(
        Certificate.Extension(
          oid: OID(content: Array(content)),
          isCritical: X509_EXTENSION_get_critical(entry) == 1,
          value: value))
    }
    return list
  }

  private static func subject(_ name: OpaquePointer) -> Certificate.Subject {
    func text(_ nid: Int32) -> String? {
      let index = X509_NAME_get_index_by_NID(name, nid, -1)
      guard index >= 0, let entry = X509_NAME_get_entry(name, index),
        let value = X509_NAME_ENTRY_get_data(entry)
      else { return nil }
      var start: UnsafeMutablePointer<UInt8>?
      let count = ASN1_STRING_to_UTF8(&start, value)
      guard count >= 0, let start = start else { return nil }
      defer { CRYPTO_free(start, nil, 0) }
      // A zero byte in a name is an old attack on readers that stop there.
      let bytes = UnsafeBufferPointer(start: start, count: Int(count))
      guard !bytes.contains(0) else { return nil }
      return String(validating: bytes, as: UTF8.self)
    }
    return Certificate.Subject(
      userID: text(NID_userId), commonName: text(NID_commonName),
      organization: text(NID_organizationName),
      organizationalUnit: text(NID_organizationalUnitName), country: text(NID_countryName))
  }
}
