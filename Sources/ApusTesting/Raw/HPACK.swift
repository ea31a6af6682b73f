/// A header field.
package struct RawHeader: Sendable, Hashable, CustomStringConvertible {
  package var name: String
  package var value: [UInt8]

  package init(_ name: String, _ value: [UInt8]) {
    self.name = name
    self.value = value
  }

  package init(_ name: String, _ value: String) { self.init(name, Array(value.utf8)) }

  package var text: String { String(decoding: value, as: UTF8.self) }
  package var description: String { "\(name): \(text)" }
}

/// Header blocks as literals without indexing and without Huffman coding: RFC 7541, section 6.2.2.
package enum HPACKLiteral {
  package static func block(_ headers: [RawHeader]) -> [UInt8] {
    headers.flatMap { [0x00] + string(Array($0.name.utf8)) + string($0.value) }
  }

  private static func string(_ bytes: [UInt8]) -> [UInt8] { integer(bytes.count) + bytes }

  /// Section 5.1, with a prefix of 7 bits.
  private static func integer(_ value: Int) -> [UInt8] {
    guard value >= 0x7f else { return [UInt8(value)] }
    var bytes: [UInt8] = [0x7f]
    var rest = value - 0x7f
    while rest >= 0x80 {
      bytes.append(UInt8(rest & 0x7f) | 0x80)
      rest >>= 7
    }
    return bytes + [UInt8(rest)]
  }
}

/// Reads header blocks (RFC 7541); written for tests, independently of the service's decoder.
package struct HPACKDecoder: Sendable {
  package enum Fault: Error, Sendable, Equatable {
    case truncated
    case index(Int)
    case huffman
  }

  private var table: [RawHeader] = []
  private var capacity = 4096

  package init() {}

  package mutating func decode(_ block: [UInt8]) throws(Fault) -> [RawHeader] {
    var input = block[...]
    var headers: [RawHeader] = []
    while let first = input.first {
      if first & 0x80 != 0 {
        headers.append(try entry(integer(&input, bits: 7)))
      } else if first & 0xe0 == 0x20 {
        capacity = try integer(&input, bits: 5)
        evict()
      } else {
        let isIndexed = first & 0x40 != 0
        let index = try integer(&input, bits: isIndexed ? 6 : 4)
        let name =
          try index == 0
          ? String(decoding: string(&input), as: UTF8.self) : entry(index).name
        let header = RawHeader(name, try string(&input))
        headers.append(header)
        if isIndexed {
          table.insert(header, at: 0)
          evict()
        }
      }
    }
    return headers
  }

  private mutating func evict() {
    var size = table.reduce(0) { $0 + $1.name.utf8.count + $1.value.count + 32 }
    while size > capacity, let last = table.popLast() {
      size -= last.name.utf8.count + last.value.count + 32
    }
  }

  private func entry(_ index: Int) throws(Fault) -> RawHeader {
    if index >= 1, index <= Self.staticTable.count { return Self.staticTable[index - 1] }
    let place = index - Self.staticTable.count - 1
    guard table.indices.contains(place) else { throw .index(index) }
    return table[place]
  }

  private func integer(_ input: inout ArraySlice<UInt8>, bits: Int) throws(Fault) -> Int {
    guard let first = input.popFirst() else { throw .truncated }
    let mask = (1 << bits) - 1
    var value = Int(first) & mask
    guard value == mask else { return value }
    var shift = 0
    while shift < 28, let byte = input.popFirst() {
      value += Int(byte & 0x7f) << shift
      if byte & 0x80 == 0 { return value }
      shift += 7
    }
    throw .truncated
  }

  private func string(_ input: inout ArraySlice<UInt8>) throws(Fault) -> [UInt8] {
    guard let first = input.first else { throw .truncated }
    let count = try integer(&input, bits: 7)
    guard count <= input.count else { throw .truncated }
    let bytes = Array(input.prefix(count))
    input = input.dropFirst(count)
    return first & 0x80 == 0 ? bytes : try HPACKHuffman.decode(bytes)
  }

  /// RFC 7541, appendix A.
  private static let staticTable: [RawHeader] = [
    (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"),
    (":path", "/index.html"), (":scheme", "http"), (":scheme", "https"), (":status", "200"),
    (":status", "204"), (":status", "206"), (":status", "304"), (":status", "400"),
    (":status", "404"), (":status", "500"), ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"), ("accept-language", ""), ("accept-ranges", ""),
    ("accept", ""), ("access-control-allow-origin", ""), ("age", ""), ("allow", ""),
    ("authorization", ""), ("cache-control", ""), ("content-disposition", ""),
    ("content-encoding", ""), ("content-language", ""), ("content-length", ""),
    ("content-location", ""), ("content-range", ""), ("content-type", ""), ("cookie", ""),
    ("date", ""), ("etag", ""), ("expect", ""), ("expires", ""), ("from", ""), ("host", ""),
    ("if-match", ""), ("if-modified-since", ""), ("if-none-match", ""), ("if-range", ""),
    ("if-unmodified-since", ""), ("last-modified", ""), ("link", ""), ("location", ""),
    ("max-forwards", ""), ("proxy-authenticate", ""), ("proxy-authorization", ""), ("range", ""),
    ("referer", ""), ("refresh", ""), ("retry-after", ""), ("server", ""), ("set-cookie", ""),
    ("strict-transport-security", ""), ("transfer-encoding", ""), ("user-agent", ""), ("vary", ""),
    ("via", ""), ("www-authenticate", ""),
  ].map { RawHeader($0.0, $0.1) }
}

/// The Huffman code of RFC 7541, appendix B, for visible ASCII.
///
/// The code is canonical: sorted by length, then by symbol, each code is the previous one plus one, so the lengths
/// define it. Symbols other than visible ASCII have codes of at least 19 bits, so these codes work without them.
enum HPACKHuffman {
  /// Characters by code length in bits.
  private static let characters: [(bits: Int, characters: String)] = [
    (5, "012aceiost"), (6, " %-./3456789=A_bdfghlmnpru"),
    (7, ":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz"), (8, "&*,;XZ"), (10, "!\"()?"), (11, "'+|"),
    (12, "#>"), (13, "\u{0}$@[]~"), (14, "^}"), (15, "<`{"),
  ]

  private static let longest = 15

  /// The symbol of each code, at the code with a bit before it; nil at what is no code. A debug build finds an element
  /// much faster than a key.
  private static let symbols: [UInt8?] = {
    var symbols = [UInt8?](repeating: nil, count: 2 << longest)
    var next = 0
    var length = 0
    for row in characters {
      next <<= row.bits - length
      length = row.bits
      for symbol in row.characters.utf8 {
        symbols[1 << length | next] = symbol
        next += 1
      }
    }
    return symbols
  }()

  static func decode(_ bytes: [UInt8]) throws(HPACKDecoder.Fault) -> [UInt8] {
    let symbols = symbols
    var output: [UInt8] = []
    // A bit, and those of the code so far.
    var code = 1
    for byte in bytes {
      var bit: UInt8 = 0x80
      while bit > 0 {
        code = code << 1 | (byte & bit > 0 ? 1 : 0)
        bit >>= 1
        guard code < symbols.count else { throw .huffman }
        if let symbol = symbols[code] {
          output.append(symbol)
          code = 1
        }
      }
    }
    // Section 5.2: the rest is padding, less than a byte of ones.
    guard code < 1 << 8, code & (code + 1) == 0 else { throw .huffman }
    return output
  }
}
