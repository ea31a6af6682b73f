import ApusModel
import COpenSSL

/// Owns an `X509` of OpenSSL while it is read or verified.
@safe struct X509Handle: ~Copyable {
  let handle: OpaquePointer

  /// Takes exactly one certificate.
  init(der: Span<UInt8>) throws(TrustFault) {
    let handle = unsafe OpenSSL.decoded(der, free: { unsafe X509_free($0) }) {
      unsafe d2i_X509(nil, $0, $1)
    }
    guard let handle = unsafe handle else { throw .malformedCertificate }
    unsafe self.handle = unsafe handle
  }

  deinit { unsafe X509_free(handle) }

  /// The values; nil if a required one cannot be read.
  func read() -> Certificate? {
    defer { OpenSSL.clearErrors() }
    guard let notBefore = unsafe Self.unixSeconds(X509_get0_notBefore(handle)),
      let notAfter = unsafe Self.unixSeconds(X509_get0_notAfter(handle)),
      let key = unsafe X509_get0_pubkey(handle),
      let name = unsafe X509_get_subject_name(handle),
      let issuer = unsafe X509_get_issuer_name(handle)
    else { return nil }
    // Also computes what the functions below return; -1 if an extension cannot be read.
    let authority = unsafe X509_check_ca(handle)
    guard unsafe X509_get_extension_flags(handle) & UInt32(EXFLAG_INVALID) == 0 else { return nil }
    let usage = unsafe X509_get_extended_key_usage(handle)
    let serialBytes = unsafe Self.bytes(X509_get0_serialNumber(handle)) ?? []
    return unsafe Certificate(
      der: OpenSSL.encoded { unsafe i2d_X509(handle, $0) },
      subject: Self.subject(name),
      serial: Self.digits(of: serialBytes),
      notBefore: notBefore,
      notAfter: notAfter,
      keyKind: KeyKind(key),
      spkiDER: OpenSSL.encoded { unsafe i2d_PUBKEY(key, $0) },
      isAuthority: authority == 1,
      issuerDER: OpenSSL.encoded { unsafe i2d_X509_NAME(issuer, $0) },
      serialBytes: serialBytes,
      subjectDER: OpenSSL.encoded { unsafe i2d_X509_NAME(name, $0) },
      subjectKeyID: Self.bytes(X509_get0_subject_key_id(handle)),
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
    for index in unsafe 0..<max(X509_get_ext_count(handle), 0) {
      guard let entry = unsafe X509_get_ext(handle, index),
        let object = unsafe X509_EXTENSION_get_object(entry),
        let value = unsafe Self.bytes(X509_EXTENSION_get_data(entry))
      else { continue }
      let content = unsafe UnsafeBufferPointer(
        start: OBJ_get0_data(object), count: OBJ_length(object))
      unsafe list.append(
        Certificate.Extension(
          oid: OID(content: Array(content)),
          isCritical: X509_EXTENSION_get_critical(entry) == 1,
          value: value))
    }
    return list
  }

  private static func subject(_ name: OpaquePointer) -> Certificate.Subject {
    func text(_ nid: Int32) -> String? {
      let index = unsafe X509_NAME_get_index_by_NID(name, nid, -1)
      guard index >= 0, let entry = unsafe X509_NAME_get_entry(name, index),
        let value = unsafe X509_NAME_ENTRY_get_data(entry)
      else { return nil }
      var start: UnsafeMutablePointer<UInt8>?
      let count = unsafe ASN1_STRING_to_UTF8(&start, value)
      guard count >= 0, let start = unsafe start else { return nil }
      defer { unsafe CRYPTO_free(start, nil, 0) }
      // A zero byte in a name is an old attack on readers that stop there.
      let bytes = unsafe UnsafeBufferPointer(start: start, count: Int(count))
      guard unsafe !bytes.contains(0) else { return nil }
      return unsafe String(validating: bytes, as: UTF8.self)
    }
    return Certificate.Subject(
      userID: text(NID_userId), commonName: text(NID_commonName),
      organization: text(NID_organizationName),
      organizationalUnit: text(NID_organizationalUnitName), country: text(NID_countryName))
  }

  static func bytes(_ string: UnsafePointer<ASN1_STRING>?) -> [UInt8]? {
    guard let string = unsafe string else { return nil }
    return unsafe Array(
      UnsafeBufferPointer(
        start: ASN1_STRING_get0_data(string), count: Int(ASN1_STRING_length(string))))
  }

  /// OpenSSL reads both forms of time and computes the distance from the epoch.
  static func unixSeconds(_ time: UnsafePointer<ASN1_TIME>?) -> Int64? {
    guard let time = unsafe time, let epoch = unsafe ASN1_TIME_set(nil, 0) else { return nil }
    defer { unsafe ASN1_TIME_free(epoch) }
    var days: Int32 = 0
    var seconds: Int32 = 0
    guard unsafe ASN1_TIME_diff(&days, &seconds, epoch, time) == 1 else { return nil }
    return Int64(days) * 86400 + Int64(seconds)
  }
}
