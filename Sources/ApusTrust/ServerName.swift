import COpenSSL
import CShims

/// A name of a server in a certificate.
enum ServerName {
  /// A GeneralName: dNSName `[2]` or iPAddress `[7]`. RFC 5280, section 4.2.1.6.
  static func generalName(_ name: String) throws(TrustFault) -> [UInt8] {
    if let address = address(name) { return DER.element(DER.Tag.context(7), address) }
    guard isDNSName(name) else { throw .badName(name) }
    return DER.element(DER.Tag.context(2), Array(name.utf8))
  }

  /// The DNS names and addresses among a subject's alternative names, as text; other kinds are skipped.
  static func texts(ofGeneralNames value: [UInt8]) -> [String] {
    let bytes = value.span
    var names: [String] = []
    var list = DERReader(bytes)
    guard let content = try? list.element(DER.Tag.sequence) else { return [] }
    var entries = DERReader(bytes, within: content)
    while !entries.isAtEnd {
      guard let (tag, range) = try? entries.anyElement() else { return names }
      switch tag {
      case DER.Tag.context(2): names.append(String(decoding: value[range], as: UTF8.self))
      case DER.Tag.context(7): names.append(text(ofAddress: value[range]))
      default: continue
      }
    }
    return names
  }

  private static func text(ofAddress bytes: ArraySlice<UInt8>) -> String {
    var text = [CChar](repeating: 0, count: apus_address_text_size)
    let count = unsafe bytes.withUnsafeBufferPointer { bytes in
      guard let start = bytes.baseAddress else { return 0 }
      return unsafe apus_address_text(start, bytes.count, &text)
    }
    // Of another length it is no address, and matches none.
    guard count > 0 else { return bytes.map(String.init).joined(separator: ".") }
    return String(decoding: text.prefix(count).map(UInt8.init(bitPattern:)), as: UTF8.self)
  }

  /// The 4 or 16 bytes of an address in text form.
  private static func address(_ text: String) -> [UInt8]? {
    guard let string = unsafe a2i_IPADDRESS(text) else {
      OpenSSL.clearErrors()
      return nil
    }
    defer { unsafe ASN1_OCTET_STRING_free(string) }
    return unsafe Array(
      UnsafeBufferPointer(
        start: ASN1_STRING_get0_data(string), count: Int(ASN1_STRING_length(string))))
  }

  /// RFC 1123, section 2.1, plus the underscore that container networks use in names, and `*` as the first label. A
  /// last label of digits only would look like an address (RFC 3696, section 2).
  private static func isDNSName(_ name: String) -> Bool {
    guard (1...253).contains(name.utf8.count) else { return false }
    let labels = name.split(separator: ".", omittingEmptySubsequences: false)
    for (index, label) in labels.enumerated() {
      if label == "*", index == 0, labels.count > 1 { continue }
      let hyphen = UInt8(ascii: "-")
      guard (1...63).contains(label.utf8.count), label.utf8.first != hyphen,
        label.utf8.last != hyphen,
        label.utf8.allSatisfy({
          $0 &- 0x30 < 10 || ($0 | 0x20) &- 0x61 < 26 || $0 == hyphen || $0 == UInt8(ascii: "_")
        })
      else { return false }
    }
    return labels.last.map { !$0.utf8.allSatisfy { $0 &- 0x30 < 10 } } ?? false
  }
}
