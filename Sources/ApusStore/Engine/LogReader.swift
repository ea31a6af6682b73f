/// Reads the records of a file in the engine's log format, and distinguishes the end that a crash leaves from damage.
///
/// The format is that of RocksDB's log_format.h: blocks of 32 KiB with records that do not cross them, each preceded
/// by a CRC-32C (masked) of its type and content, its length and its type. Zeros follow the last one of a block if no
/// other would fit, and the last one of a file if room was allocated in advance.
///
/// A crash leaves a beginning of what was written. A power cut may also leave whole sectors zero, as only these reach
/// the disk at once. Nothing valid follows such a place, because each write is synced before the next one begins. All
/// else is damage, also where the engine would see the end of the log and be silent: a type that it uses for recycled
/// logs, a length beyond the end of the file, and zeros before other records.
struct LogReader: Sendable, Equatable {
  static let blockBytes = 32_768
  private static let headerBytes = 7
  private static let sectorBytes = 512

  enum Part: UInt8 {
    case full = 1
    case first, middle, last
  }

  /// What is found in a block. Offsets are those in the file, the range is that of the content in the block.
  enum Item: Equatable {
    case record(Part, Range<Int>, at: Int)
    /// The rest of its block is skipped: a length in it may be wrong.
    case damage(at: Int)
    /// The end that a crash left.
    case torn(at: Int)
  }

  /// The place of a damaged record's type if it is one that the engine uses for recycled logs, which this store does
  /// not have.
  static func recycledType(in block: Span<UInt8>, at start: Int) -> Int? {
    let place = start + 6
    return place < block.count && (5...8).contains(block[place]) ? place : nil
  }

  /// The offset of the block.
  private var offset = 0
  private var place = 0
  /// The offset in the file from which all earlier blocks contain only zeros.
  private var room: Int?

  /// The next item of a block; nil at its end. After that, the next block can be read.
  ///
  /// - Parameter block: 32 KiB, or fewer bytes for the last one.
  mutating func next(in block: Span<UInt8>, isLast: Bool) -> Item? {
    if let room, place == 0 {
      guard Self.used(block, from: 0) != nil else { return end(of: block) }
      self.room = nil
      return .damage(at: room)
    }
    guard block.count - place >= Self.headerBytes else {
      // In a whole block these bytes are unused.
      let isTorn = isLast && block.count < Self.blockBytes && place < block.count
      let start = place
      guard isTorn else { return end(of: block) }
      place = block.count
      return .torn(at: offset + start)
    }
    return record(in: block, isLast: isLast)
  }

  private mutating func end(of block: Span<UInt8>) -> Item? {
    offset += block.count
    place = 0
    return nil
  }

  private mutating func record(in block: Span<UInt8>, isLast: Bool) -> Item? {
    let start = place
    place = block.count
    let header = Header(block, at: start)
    if header.isUnused { return unused(block, from: start, header, isLast: isLast) }
    let content = start + Self.headerBytes..<start + Self.headerBytes + header.length
    guard content.upperBound <= Self.blockBytes, let part = Part(rawValue: header.type) else {
      return .damage(at: offset + start)
    }
    guard content.upperBound <= block.count else {
      // The checksum does not cover the length.
      let isWhole = Self.isWhole(block, at: start, header)
      return isWhole || Self.hasRecord(block, from: start + 1)
        ? .damage(at: offset + start) : .torn(at: offset + start)
    }
    guard header.fits(block.extracting(start + 6..<content.upperBound)) else {
      return .damage(at: offset + start)
    }
    place = content.upperBound
    return .record(part, content, at: offset + start)
  }

  private struct Header {
    var checksum: UInt32
    var length: Int
    var type: UInt8

    init(_ block: Span<UInt8>, at place: Int) {
      checksum = (0..<4).reversed().reduce(0) { $0 << 8 | UInt32(block[place + $1]) }
      length = Int(block[place + 4]) | Int(block[place + 5]) << 8
      type = block[place + 6]
    }

    var isUnused: Bool { type == 0 && length == 0 }

    /// - Parameter bytes: The type and the content.
    func fits(_ bytes: Span<UInt8>) -> Bool { CRC32C.of(bytes).masked == checksum }
  }

  /// Unused room from `start` on, unless something follows.
  private mutating func unused(
    _ block: Span<UInt8>, from start: Int, _ header: Header, isLast: Bool
  ) -> Item? {
    let afterChecksum = start + 4
    let isSectorEnd =
      (offset + start) / Self.sectorBytes != (offset + afterChecksum + 2) / Self.sectorBytes
    guard header.checksum == 0 || isLast && isSectorEnd else { return .damage(at: offset + start) }
    guard let used = Self.used(block, from: afterChecksum) else {
      if header.checksum != 0 { return .torn(at: offset + start) }
      room = offset + start
      return end(of: block)
    }
    let isTorn =
      isLast && (offset + used).isMultiple(of: Self.sectorBytes)
      && !Self.hasRecord(block, from: used)
    return isTorn ? .torn(at: offset + start) : .damage(at: offset + start)
  }

  /// The first place from `start` on with a byte other than zero.
  private static func used(_ block: Span<UInt8>, from start: Int) -> Int? {
    (start..<block.count).first { block[$0] != 0 }
  }

  /// Whether the checksum of a record whose length is beyond the end of the file is right for a shorter one.
  private static func isWhole(_ block: Span<UInt8>, at start: Int, _ header: Header) -> Bool {
    var crc = CRC32C()
    for index in start + 6..<block.count {
      crc.add(block[index])
      if crc.masked == header.checksum { return true }
    }
    return false
  }

  /// Whether there is a valid record anywhere behind damage.
  private static func hasRecord(_ block: Span<UInt8>, from start: Int) -> Bool {
    var place = start
    while place + headerBytes <= block.count {
      let header = Header(block, at: place)
      let end = place + headerBytes + header.length
      if Part(rawValue: header.type) != nil, end <= block.count,
        header.fits(block.extracting(place + 6..<end))
      {
        return true
      }
      place += 1
    }
    return false
  }
}
