import COpenSSL

/// Owns an `X509` of OpenSSL while it is verified.
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
