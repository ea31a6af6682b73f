import ApusModel

/// Numeric addresses and ports as text, read from the front. What does not fit is not taken; the state is then
/// unspecified, except after ``take(_:)``.
struct AddressText: ~Escapable {
  private let bytes: Span<UInt8>
  private var offset = 0

  @_lifetime(copy bytes)
  init(_ bytes: Span<UInt8>) { self.bytes = bytes }

  var isAtEnd: Bool { offset == bytes.count }

  private var next: UInt8? { offset < bytes.count ? bytes[offset] : nil }

  /// Takes exactly that text; false, and nothing is taken, if something else is next.
  mutating func take(_ word: String) -> Bool {
    let word = Array(word.utf8)
    guard bytes.count - offset >= word.count,
      word.indices.allSatisfy({ bytes[offset + $0] == word[$0] })
    else { return false }
    offset += word.count
    return true
  }

  /// A space and the source's port, a space and the destination's, and the end; returns the first port.
  mutating func takePorts() -> UInt16? {
    guard take(" "), let source = takeDecimal(upTo: 65_535), take(" "),
      takeDecimal(upTo: 65_535) != nil, isAtEnd
    else { return nil }
    return UInt16(source)
  }

  /// Four decimal numbers with dots between them.
  mutating func takeIPv4() -> UInt32? {
    var address: UInt32 = 0
    for place in 0..<4 {
      guard place == 0 || take("."), let number = takeDecimal(upTo: 255) else { return nil }
      address = address << 8 | number
    }
    return address
  }

  /// Without leading zeros.
  private mutating func takeDecimal(upTo limit: UInt32) -> UInt32? {
    let start = offset
    var number: UInt32 = 0
    while let digit = next.map({ $0 &- UInt8(ascii: "0") }), digit < 10, number <= limit {
      number = number * 10 + UInt32(digit)
      offset += 1
    }
    guard offset > start, number <= limit else { return nil }
    return offset - start > 1 && bytes[start] == UInt8(ascii: "0") ? nil : number
  }

  /// Groups of hexadecimal digits (RFC 4291, section 2.2), in each of its three forms.
  mutating func takeIPv6() -> UInt128? {
    var value: UInt128 = 0
    var count = 0
    // The groups in front of a double colon.
    var head: (value: UInt128, count: Int)?
    if take("::") { head = (0, 0) }
    while true {
      let start = offset
      guard let group = takeGroup() else {
        // Nothing has to follow a double colon.
        guard head != nil, count == 0 else { return nil }
        break
      }
      if next == UInt8(ascii: ".") {
        offset = start
        guard let tail = takeIPv4() else { return nil }
        value = value << 32 | UInt128(tail)
        count += 2
        break
      }
      value = value << 16 | UInt128(group)
      count += 1
      if take("::") {
        guard head == nil else { return nil }
        head = (value, count)
        (value, count) = (0, 0)
      } else if !take(":") {
        break
      }
    }
    guard let head else { return count == 8 ? value : nil }
    guard head.count + count < 8 else { return nil }
    return head.value << (16 * (8 - head.count)) | value
  }

  private mutating func takeGroup() -> UInt16? {
    let start = offset
    var group: UInt16 = 0
    while offset - start < 4, let digit = next.flatMap(hexValue) {
      group = group << 4 | UInt16(digit)
      offset += 1
    }
    return offset > start ? group : nil
  }
}
