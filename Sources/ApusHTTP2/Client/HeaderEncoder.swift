import ApusModel
import CNGHTTP2

/// Encodes the header fields of one connection's requests (RFC 7541) into HEADERS frames.
///
/// It replaces nghttp2's encoder, which takes a third of a request's cost because it Huffman-codes the provider token,
/// the path and the id of each. Here the token is coded once, values that never repeat are sent as they are, and for
/// other fields only the newest value of each name is looked up in the table: providers repeat nothing else.
@safe final class HeaderEncoder {
  /// The newest entry with a name in the decoder's table.
  private struct Entry {
    /// The number of entries made before it; -1 if there is none.
    var number = -1
    /// The bytes (section 4.1) of those entries.
    var bytesBefore = 0
    /// Bytes of the value.
    var length = 0
  }

  static let frameHeaderLength = 9
  /// SETTINGS_MAX_FRAME_SIZE is never less (RFC 9113, section 6.5.2).
  private static let blockCapacity = 16_384
  /// The default table size of a decoder (RFC 9113, section 6.5.2), and the largest used.
  static let tableBytes = 4096
  /// Longer values are not entered into the table.
  private static let valueBytes = 128
  /// RFC 7541, section 4.1: the overhead of an entry.
  private static let entryBytes = 32
  /// Appendix A, 3 and 7.
  private static let post: UInt8 = 0x83
  private static let https: UInt8 = 0x87
  /// Entries of the static table (appendix A).
  private static let staticCount = 61

  /// The authority of all requests, whose own fields then omit it.
  private var authority: [UInt8] = []
  private var authorization: [UInt8] = []
  /// The encoded form, reused for many blocks.
  private var spelledAuthorization: [UInt8] = []
  private let output: UnsafeMutablePointer<UInt8>
  private var used = 0
  /// Indexed by name.
  private let entries: UnsafeMutableBufferPointer<Entry>
  /// The values of the entries, each in `valueBytes`.
  private let values: UnsafeMutablePointer<UInt8>
  private var capacity = tableBytes
  /// The least capacity since the last block, if it changed.
  private var leastCapacity: Int?
  private var entryCount = 0
  private var entryByteCount = 0

  init() {
    let nameCount = HeaderName.allCases.count
    unsafe output = .allocate(capacity: Self.frameHeaderLength + Self.blockCapacity)
    unsafe entries = .allocate(capacity: nameCount)
    unsafe entries.initialize(repeating: Entry())
    unsafe values = .allocate(capacity: nameCount * Self.valueBytes)
  }

  deinit {
    unsafe output.deallocate()
    unsafe entries.deallocate()
    unsafe values.deallocate()
  }

  /// Sets the decoder's SETTINGS_HEADER_TABLE_SIZE. The next block acknowledges it (section 4.2).
  func setTableCapacity(_ announced: Int) {
    let wanted = min(announced, Self.tableBytes)
    guard wanted != capacity || leastCapacity != nil else { return }
    leastCapacity = min(leastCapacity ?? capacity, wanted)
    capacity = wanted
    // Evicted entries are not counted; treating all as unknown is always correct.
    for place in unsafe entries.indices { unsafe entries[place].number = -1 }
  }

  /// See ``HTTP2ClientSession/share(authority:authorization:)``.
  func share(authority: Span<UInt8>, authorization: [UInt8]) {
    let known = self.authority
    if !known.span.equals(authority) { self.authority = authority.copied() }
    guard self.authorization != authorization else { return }
    self.authorization = authorization
    spelledAuthorization =
      authorization.isEmpty ? [] : Self.neverIndexed(.authorization, value: authorization.span)
  }

  /// A HEADERS frame with the header of `frame` and its own length; valid until the next call.
  func frame(
    like frame: UnsafePointer<UInt8>, _ fields: borrowing HTTP2FieldList
  ) -> UnsafeBufferPointer<UInt8> {
    used = Self.frameHeaderLength
    announceCapacity()
    if !authority.isEmpty {
      put(Self.post)
      put(Self.https)
      unsafe authority.withUnsafeBufferPointer {
        unsafe add(.authority, Span(_unsafeElements: $0))
      }
    }
    spell(fields.span)
    unsafe spelledAuthorization.withUnsafeBufferPointer { unsafe put(Span(_unsafeElements: $0)) }
    let length = used - Self.frameHeaderLength
    unsafe output.update(from: frame, count: Self.frameHeaderLength)
    for place in 0..<3 {
      unsafe output[place] = UInt8(truncatingIfNeeded: length &>> (16 - 8 * place))
    }
    return unsafe UnsafeBufferPointer(start: output, count: used)
  }

  /// Section 4.2: announces the least capacity since the last block, then the current one.
  private func announceCapacity() {
    guard let least = leastCapacity else { return }
    leastCapacity = nil
    put(least, prefixBits: 5, 0x20)
    if capacity != least { put(capacity, prefixBits: 5, 0x20) }
  }

  private func spell(_ fields: Span<UInt8>) {
    var place = 0
    while place < fields.count {
      guard let name = HeaderName(rawValue: fields[place]) else { return }
      let length = Int(fields[place + 1]) &<< 8 | Int(fields[place + 2])
      place += HTTP2FieldList.headLength
      add(name, fields.extracting(place..<place + length))
      place += length
    }
  }

  private func add(_ name: HeaderName, _ value: Span<UInt8>) {
    switch name {
    // Appendix A contains these two.
    case .method where value.equals("POST"): return put(Self.post)
    case .scheme where value.equals("https"): return put(Self.https)
    default: break
    }
    let place = Int(name.rawValue)
    let entry = unsafe entries[place]
    let isKnown = entry.number >= 0 && entryByteCount - entry.bytesBefore <= capacity
    let index = isKnown ? Self.staticCount + entryCount - entry.number : name.staticIndex
    guard name.isIndexed else {
      // Section 6.2.3: proxies must not enter it into a table either.
      return addLiteral(name, index, prefixBits: 4, 0x10, value)
    }
    let newest = unsafe values + place * Self.valueBytes
    if isKnown, unsafe Span(_unsafeStart: newest, count: entry.length).equals(value) {
      return put(index, prefixBits: 7, 0x80)
    }
    let bytes = Self.entryBytes + name.text.utf8CodeUnitCount + value.count
    guard value.count <= Self.valueBytes, bytes <= capacity / 4 * 3 else {
      return addLiteral(name, index, prefixBits: 4, 0, value)
    }
    addLiteral(name, index, prefixBits: 6, 0x40, value)
    unsafe entries[place] = Entry(
      number: entryCount, bytesBefore: entryByteCount, length: value.count)
    for offset in value.indices { unsafe newest[offset] = value[offset] }
    entryCount += 1
    entryByteCount += bytes
  }

  /// - Parameter index: That of an entry with the name; 0 if there is none.
  private func addLiteral(
    _ name: HeaderName, _ index: Int, prefixBits: Int, _ pattern: UInt8, _ value: Span<UInt8>
  ) {
    put(index, prefixBits: prefixBits, pattern)
    if index == 0 {
      let text = name.text
      put(text.utf8CodeUnitCount, prefixBits: 7, 0)
      text.withUTF8Buffer { unsafe put(Span(_unsafeElements: $0)) }
    }
    put(value.count, prefixBits: 7, 0)
    put(value)
  }

  /// Section 5.1.
  private func put(_ number: Int, prefixBits: Int, _ pattern: UInt8) {
    let limit = 1 &<< prefixBits &- 1
    guard number >= limit else { return put(pattern | UInt8(truncatingIfNeeded: number)) }
    put(pattern | UInt8(truncatingIfNeeded: limit))
    var rest = number - limit
    while rest >= 0x80 {
      put(UInt8(truncatingIfNeeded: rest) | 0x80)
      rest &>>= 7
    }
    put(UInt8(truncatingIfNeeded: rest))
  }

  private func put(_ byte: UInt8) {
    precondition(used < Self.frameHeaderLength + Self.blockCapacity, "header list too long")
    unsafe output[used] = byte
    used += 1
  }

  private func put(_ bytes: Span<UInt8>) {
    let count = bytes.count
    precondition(
      count <= Self.frameHeaderLength + Self.blockCapacity - used, "header list too long")
    unsafe bytes.withUnsafeBufferPointer { source in
      if let base = source.baseAddress { unsafe (output + used).update(from: base, count: count) }
    }
    used += count
  }

  /// A never-indexed field, Huffman-coded once for many blocks, by nghttp2, which never indexes `authorization`.
  static func neverIndexed(_ name: HeaderName, value: Span<UInt8>) -> [UInt8] {
    var deflater: OpaquePointer?
    guard unsafe nghttp2_hd_deflate_new(&deflater, tableBytes) == 0 else {
      fatalError("out of memory")
    }
    defer { unsafe nghttp2_hd_deflate_del(deflater) }
    let block = HeaderBlock()
    block.add(name, value: value, indexed: false)
    let bound = unsafe nghttp2_hd_deflate_bound(deflater, block.fields, block.count)
    return unsafe [UInt8](unsafeUninitializedCapacity: bound) { buffer, count in
      count = unsafe max(
        0, nghttp2_hd_deflate_hd(deflater, buffer.baseAddress, bound, block.fields, block.count))
    }
  }
}

extension HeaderName {
  /// Whether a request's field may enter the table: ids, which never repeat, would only evict others, and one of
  /// Apple's two pages on this wants `authorization` kept out ("Sending notification requests to APNs").
  var isIndexed: Bool {
    switch self {
    case .path, .authorization, .apnsID, .apnsCollapseID, .apnsRequestID: false
    default: true
    }
  }

  /// The index of the name in the static table (RFC 7541, appendix A); 0 if it has none.
  fileprivate var staticIndex: Int {
    switch self {
    case .authority: 1
    case .method: 2
    case .path: 4
    case .scheme: 6
    case .status: 8
    case .authorization: 23
    case .contentLength: 28
    case .contentType: 31
    case .host: 38
    case .apnsID, .apnsPushType, .apnsExpiration, .apnsPriority, .apnsTopic, .apnsCollapseID,
      .apnsRequestID, .apnsChannelID, .apnsUniqueID:
      0
    }
  }
}
