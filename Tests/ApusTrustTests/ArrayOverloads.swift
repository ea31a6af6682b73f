import ApusModel
import ApusWire

@testable import ApusTrust

// The macros of Swift Testing do not support expressions that contain a Span.

extension ECDSASignature {
  init?(der: [UInt8]) { self.init(der: der.span) }
  init?(raw: [UInt8]) { self.init(raw: raw.span) }
}

extension DeviceToken {
  init?(bytes: [UInt8]) { self.init(bytes: bytes.span) }

  init?(hex: String) {
    let digits = Array(hex.utf8)
    self.init(hex: digits.span)
  }
}

extension Base64URL {
  static func encode(_ bytes: [UInt8]) -> String {
    let text: [UInt8] = encode(bytes.span)
    return String(decoding: text, as: UTF8.self)
  }

  static func decode(_ text: String) -> [UInt8]? {
    let bytes = Array(text.utf8)
    return decode(bytes.span)
  }
}

extension ProviderToken {
  static func parse(_ text: String) throws(ProviderTokenFault) -> ProviderToken {
    let bytes = Array(text.utf8)
    return try parse(bytes.span)
  }
}

extension TopicsExtension {
  static func parse(_ bytes: [UInt8]) throws(TopicsExtensionFault) -> TopicsExtension {
    try parse(bytes.span)
  }
}

extension ProviderKeyVerifier {
  func verifies(_ text: String) throws -> Bool {
    let bytes = Array(text.utf8)
    return verifies(try ProviderToken.parse(bytes.span), in: bytes.span)
  }
}
