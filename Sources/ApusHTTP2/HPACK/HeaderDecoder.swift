import ApusModel

/// A block that violates RFC 7541: the two tables may differ from here on, so the connection ends.
struct CompressionFault: Error {}

/// Reads the header blocks of one connection (RFC 7541), field by field.
@safe final class HeaderDecoder {
  private var table = DynamicTable()
  private let statics = StaticTable.shared
  private let huffman = HuffmanDecoder.shared
  /// Memory for decoded text; shared by a worker's connections.
  var texts: HeaderTexts
  /// The last provider token.
  private var authorization: RepeatedValue?
  /// The field that `next` decoded.
  private(set) var field = HeaderField()

  // Section 6: the first bits of each representation.
  private static let indexed: UInt8 = 0x80
  private static let literalIndexed: UInt8 = 0x40
  private static let sizeUpdate: UInt8 = 0x20

  init(texts: HeaderTexts) { self.texts = texts }

  /// Decodes the next field of `block`; false at its end. `offset` is 0 for the first field, and is advanced.
  func next(_ block: UnsafeBufferPointer<UInt8>, at offset: inout Int) throws(CompressionFault)
    -> Bool
  {
    // Section 4.2: size updates come first.
    if offset == 0 { try unsafe updateSize(block, at: &offset) }
    guard offset < block.count else { return false }
    let first = unsafe block[offset]
    if first & Self.indexed != 0 {
      field = try unsafe entry(Self.integer(block, at: &offset, prefixBits: 7))
    } else if first & Self.literalIndexed != 0 {
      try unsafe readLiteral(block, at: &offset, prefixBits: 6)
      table.add(field)
    } else if first & Self.sizeUpdate != 0 {
      throw CompressionFault()
    } else {
      // Without indexing, or never indexed: the difference matters only to intermediaries.
      try unsafe readLiteral(block, at: &offset, prefixBits: 4)
    }
    return true
  }

  private func updateSize(
    _ block: UnsafeBufferPointer<UInt8>, at offset: inout Int
  ) throws(CompressionFault) {
    while offset < block.count, unsafe block[offset] & 0xe0 == Self.sizeUpdate {
      let size = try unsafe Self.integer(block, at: &offset, prefixBits: 5)
      guard size <= DynamicTable.largestBytes else { throw CompressionFault() }
      table.resize(to: size)
    }
  }

  /// The field at an index into both tables (section 2.3.3).
  private func entry(_ index: Int) throws(CompressionFault) -> HeaderField {
    if index > StaticTable.count {
      let place = index - StaticTable.count - 1
      guard place < table.count else { throw CompressionFault() }
      return table[place]
    }
    guard index > 0 else { throw CompressionFault() }
    return statics[index]
  }

  /// Section 6.2. The name is copied, because the new entry may evict or move the entry that provides it.
  private func readLiteral(
    _ block: UnsafeBufferPointer<UInt8>, at offset: inout Int, prefixBits: Int
  ) throws(CompressionFault) {
    let index = try unsafe Self.integer(block, at: &offset, prefixBits: prefixBits)
    if index == 0 {
      let name = try unsafe string(block, at: &offset, texts.names)
      let value = try unsafe string(block, at: &offset, texts.values)
      field = unsafe HeaderField(name: name, value: value)
    } else {
      let known = try entry(index)
      let isMoved = prefixBits == 6 && index > StaticTable.count
      let name = unsafe isMoved ? texts.names.copy(known.unsafeName) : known.unsafeName
      if known.listed == .authorization {
        return try unsafe readAuthorization(block, at: &offset, name: name)
      }
      let value = try unsafe string(block, at: &offset, texts.values)
      field = unsafe HeaderField(listed: known.listed, name: name, value: value)
    }
  }

  /// Providers keep tokens out of the tables (section 7.1.3), so each request contains the same coded value: it is
  /// compared instead of decoded again.
  private func readAuthorization(
    _ block: UnsafeBufferPointer<UInt8>, at offset: inout Int, name: UnsafeBufferPointer<UInt8>
  ) throws(CompressionFault) {
    if let authorization,
      let value = unsafe authorization.repeats(block[offset...])
    {
      offset += authorization.codedCount
      field = unsafe HeaderField(
        listed: .authorization, isFine: authorization.isFine, name: name, value: value)
      return
    }
    let start = offset
    let value = try unsafe string(block, at: &offset, texts.values)
    field = unsafe HeaderField(listed: .authorization, name: name, value: value)
    guard offset - start <= RepeatedValue.longest else { return }
    unsafe authorization = RepeatedValue(
      coded: UnsafeBufferPointer(rebasing: block[start..<offset]), text: value,
      isFine: field.isFine)
  }

  /// Section 5.1. No valid value needs more than 28 bits.
  private static func integer(
    _ block: UnsafeBufferPointer<UInt8>, at offset: inout Int, prefixBits: Int
  ) throws(CompressionFault) -> Int {
    guard offset < block.count else { throw CompressionFault() }
    let most = (1 &<< prefixBits) &- 1
    var value = unsafe Int(block[offset]) & most
    offset &+= 1
    guard value == most else { return value }
    var shift = 0
    while shift <= 21 {
      guard offset < block.count else { throw CompressionFault() }
      let byte = unsafe Int(block[offset])
      offset &+= 1
      value &+= (byte & 0x7f) &<< shift
      if byte & 0x80 == 0 { return value }
      shift &+= 7
    }
    throw CompressionFault()
  }

  /// Section 5.2: the string, in the block or decoded.
  private func string(
    _ block: UnsafeBufferPointer<UInt8>, at offset: inout Int, _ text: HeaderText
  ) throws(CompressionFault) -> UnsafeBufferPointer<UInt8> {
    guard offset < block.count else { throw CompressionFault() }
    let isCoded = unsafe block[offset] & 0x80 != 0
    let count = try unsafe Self.integer(block, at: &offset, prefixBits: 7)
    guard count <= block.count - offset else { throw CompressionFault() }
    let bytes = unsafe UnsafeBufferPointer(rebasing: block[offset..<offset + count])
    offset += count
    guard isCoded else { return unsafe bytes }
    let target = unsafe text.reserve(HuffmanDecoder.room(forCoded: count))
    guard let length = unsafe huffman.decode(bytes, into: target) else { throw CompressionFault() }
    return unsafe UnsafeBufferPointer(start: target, count: length)
  }
}

/// A value in coded form, with its length, and as text.
@safe private final class RepeatedValue {
  /// Provider tokens have about 200 bytes.
  static let longest = 1024

  let codedCount: Int
  let isFine: Bool
  private let textCount: Int
  /// Both, contiguously.
  private let memory: UnsafeMutablePointer<UInt8>

  init(coded: UnsafeBufferPointer<UInt8>, text: UnsafeBufferPointer<UInt8>, isFine: Bool) {
    codedCount = coded.count
    textCount = text.count
    self.isFine = isFine
    unsafe memory = .allocate(capacity: coded.count + text.count)
    if let from = coded.baseAddress { unsafe memory.update(from: from, count: coded.count) }
    if let from = text.baseAddress {
      unsafe (memory + coded.count).update(from: from, count: text.count)
    }
  }

  deinit { unsafe memory.deallocate() }

  /// The text, if `bytes` begin with the same code.
  func repeats(_ bytes: Slice<UnsafeBufferPointer<UInt8>>) -> UnsafeBufferPointer<UInt8>? {
    guard unsafe bytes.count >= codedCount else { return nil }
    let known = unsafe Span(_unsafeStart: memory, count: codedCount)
    let other = unsafe UnsafeBufferPointer(rebasing: bytes.prefix(codedCount))
    guard unsafe known.equals(Span(_unsafeElements: other)) else { return nil }
    return unsafe UnsafeBufferPointer(start: memory + codedCount, count: textCount)
  }
}

/// Memory for the text of one field: name and value.
final class HeaderTexts {
  let names = HeaderText()
  let values = HeaderText()
}

/// Memory that grows to the longest text stored in it.
@safe final class HeaderText {
  private var memory = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: 512)

  deinit { unsafe memory.deallocate() }

  func reserve(_ count: Int) -> UnsafeMutablePointer<UInt8> {
    if unsafe count > memory.count {
      unsafe memory.deallocate()
      unsafe memory = .allocate(capacity: max(count, 2 * memory.count))
    }
    guard let base = unsafe memory.baseAddress else {
      preconditionFailure("no memory was asked for")
    }
    return unsafe base
  }

  func copy(_ bytes: UnsafeBufferPointer<UInt8>) -> UnsafeBufferPointer<UInt8> {
    let target = unsafe reserve(bytes.count)
    if let from = bytes.baseAddress { unsafe target.update(from: from, count: bytes.count) }
    return unsafe UnsafeBufferPointer(start: target, count: bytes.count)
  }
}
