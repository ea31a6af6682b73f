import ApusModel

/// Encodes the header fields of one connection's requests (RFC 7541).
///
/// It knows what providers send: the provider token is Huffman-coded once, values that never repeat are sent as they
/// are, and for other fields only the newest value of each name is looked up in the table. Blocks must be sent in the
/// order in which they are encoded.
@safe struct HeaderEncoder: ~Copyable {
  /// The newest entry with a name in the decoder's table.
  private struct Entry {
    /// The number of entries made before it; -1 if there is none.
    var number = -1
    /// The bytes (section 4.1) of those entries.
    var bytesBefore = 0
    /// Bytes of the value.
    var length = 0
  }

  /// Longer values are not entered into the table.
  private static let valueBytes = 128
  /// The most bytes of a field beyond its value: a representation, two lengths, and a name.
  private static let fieldBytes = 32
  /// Bytes of two table sizes, `:method` and `:scheme`.
  private static let fixedBytes = 16
  /// Appendix A, 2, 3 and 7.
  private static let get: UInt8 = 0x82
  private static let post: UInt8 = 0x83
  private static let https: UInt8 = 0x87

  /// The authority of all requests, whose own fields then omit it.
  private var authority: [UInt8] = []
  private var authorization: [UInt8] = []
  /// The encoded form, reused for many blocks.
  private var codedAuthorization: [UInt8] = []
  /// Indexed by name.
  private let entries: UnsafeMutableBufferPointer<Entry>
  /// The values of the entries, each in `valueBytes`.
  private let values: UnsafeMutablePointer<UInt8>
  private var capacity = DynamicTable.largestBytes
  /// The least capacity since the last block, if it changed.
  private var leastCapacity: Int?
  private var entryCount = 0
  private var entryByteCount = 0

  init() {
    let nameCount = HeaderName.allCases.count
    unsafe entries = .allocate(capacity: nameCount)
    unsafe entries.initialize(repeating: Entry())
    unsafe values = .allocate(capacity: nameCount * Self.valueBytes)
  }

  deinit {
    unsafe entries.deallocate()
    unsafe values.deallocate()
  }

  /// Sets the decoder's SETTINGS_HEADER_TABLE_SIZE. The next block acknowledges it (section 4.2).
  mutating func setTableCapacity(_ announced: Int) {
    let wanted = min(announced, DynamicTable.largestBytes)
    guard wanted != capacity || leastCapacity != nil else { return }
    leastCapacity = min(leastCapacity ?? capacity, wanted)
    capacity = wanted
    // Evicted entries are not counted; treating all as unknown is always correct.
    for place in unsafe entries.indices { unsafe entries[place].number = -1 }
  }

  /// See ``HTTP2ClientSession/share(authority:authorization:)``.
  mutating func share(authority: Span<UInt8>, authorization: [UInt8]) {
    if !self.authority.span.equals(authority) { self.authority = authority.copied() }
    guard self.authorization != authorization else { return }
    self.authorization = authorization
    codedAuthorization =
      authorization.isEmpty ? [] : Self.neverIndexed(.authorization, value: authorization.span)
  }

  /// The most bytes of a block with these fields.
  func room(_ fields: borrowing HTTP2FieldList) -> Int {
    Self.fixedBytes + authority.count + codedAuthorization.count + fields.byteCount
      + (fields.count + 1) * Self.fieldBytes
  }

  /// Encodes `fields`, and what all requests share.
  mutating func encode(_ fields: borrowing HTTP2FieldList, into writer: inout HeaderWriter) {
    announceCapacity(&writer)
    if !authority.isEmpty {
      if !fields.hasMethod { writer.put(Self.post) }
      writer.put(Self.https)
      let authority = authority
      add(.authority, authority.span, &writer)
    }
    add(fields.span, &writer)
    writer.put(codedAuthorization.span)
  }

  /// Section 4.2: announces the least capacity since the last block, then the current one.
  private mutating func announceCapacity(_ writer: inout HeaderWriter) {
    guard let least = leastCapacity else { return }
    leastCapacity = nil
    writer.put(least, prefixBits: 5, 0x20)
    if capacity != least { writer.put(capacity, prefixBits: 5, 0x20) }
  }

  private mutating func add(_ fields: Span<UInt8>, _ writer: inout HeaderWriter) {
    var place = 0
    while place < fields.count {
      guard let name = HeaderName(rawValue: fields[place]) else { return }
      let length = Int(fields[place + 1]) &<< 8 | Int(fields[place + 2])
      place += HTTP2FieldList.headLength
      add(name, fields.extracting(place..<place + length), &writer)
      place += length
    }
  }

  private mutating func add(
    _ name: HeaderName, _ value: Span<UInt8>, _ writer: inout HeaderWriter
  ) {
    switch name {
    // Appendix A contains these.
    case .method where value.equals("GET"): return writer.put(Self.get)
    case .method where value.equals("POST"): return writer.put(Self.post)
    case .scheme where value.equals("https"): return writer.put(Self.https)
    default: break
    }
    let place = Int(name.rawValue)
    let entry = unsafe entries[place]
    let isKnown = entry.number >= 0 && entryByteCount - entry.bytesBefore <= capacity
    let index = isKnown ? StaticTable.count + entryCount - entry.number : name.staticIndex
    guard name.isIndexed else {
      // Section 6.2.3: proxies must not enter it into a table either.
      return addLiteral(name, index, prefixBits: 4, 0x10, value, &writer)
    }
    let newest = unsafe values + place * Self.valueBytes
    if isKnown, unsafe Span(_unsafeStart: newest, count: entry.length).equals(value) {
      return writer.put(index, prefixBits: 7, 0x80)
    }
    let bytes = HeaderField.overheadBytes + name.text.utf8CodeUnitCount + value.count
    guard value.count <= Self.valueBytes, bytes <= capacity / 4 * 3 else {
      return addLiteral(name, index, prefixBits: 4, 0, value, &writer)
    }
    addLiteral(name, index, prefixBits: 6, 0x40, value, &writer)
    unsafe entries[place] = Entry(
      number: entryCount, bytesBefore: entryByteCount, length: value.count)
    unsafe FrameOutput.put(value, at: newest)
    entryCount += 1
    entryByteCount += bytes
  }

  /// - Parameter index: That of an entry with the name; 0 if there is none.
  private func addLiteral(
    _ name: HeaderName, _ index: Int, prefixBits: Int, _ pattern: UInt8, _ value: Span<UInt8>,
    _ writer: inout HeaderWriter
  ) {
    writer.put(index, prefixBits: prefixBits, pattern)
    if index == 0 { writer.putString(name.text) }
    writer.putString(value)
  }

  /// A never-indexed field, Huffman-coded for many blocks if that is shorter.
  private static func neverIndexed(_ name: HeaderName, value: Span<UInt8>) -> [UInt8] {
    let coded = HuffmanCode.encode(value)
    let isShorter = coded.count < value.count
    let text = isShorter ? coded : value.copied()
    return unsafe [UInt8](unsafeUninitializedCapacity: fieldBytes + text.count) { memory, count in
      guard let base = memory.baseAddress else { return }
      var writer = unsafe HeaderWriter(at: base, room: fieldBytes + text.count)
      writer.put(name.staticIndex, prefixBits: 4, 0x10)
      if name.staticIndex == 0 { writer.putString(name.text) }
      writer.put(text.count, prefixBits: 7, isShorter ? 0x80 : 0)
      writer.put(text.span)
      count = writer.count
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
