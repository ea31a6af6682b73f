internal import CShims

/// A cipher suite of TLS 1.3. RFC 8446, appendix B.4.
enum RecordSuite: UInt8, CaseIterable, Sendable {
  case aes128
  case aes256
  case chacha20

  /// - Parameter number: Its two bytes on the wire.
  init?(number: UInt16) {
    switch number {
    case 0x1301: self = .aes128
    case 0x1302: self = .aes256
    case 0x1303: self = .chacha20
    default: return nil
    }
  }

  var name: String {
    switch self {
    case .aes128: "TLS_AES_128_GCM_SHA256"
    case .aes256: "TLS_AES_256_GCM_SHA384"
    case .chacha20: "TLS_CHACHA20_POLY1305_SHA256"
    }
  }

  var shim: apus_suite {
    switch self {
    case .aes128: apus_suite_aes128_gcm_sha256
    case .aes256: apus_suite_aes256_gcm_sha384
    case .chacha20: apus_suite_chacha20_poly1305_sha256
    }
  }

  /// Bytes of a traffic secret: the length of the suite's hash.
  var secretBytes: Int { self == .aes256 ? 48 : 32 }
}
