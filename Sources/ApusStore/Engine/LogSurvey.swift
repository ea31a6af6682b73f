/// Surveys which writes of a log of the engine are readable, for an operator who must decide about a damaged store.
///
/// The format is that of RocksDB's log_format.h: blocks of 32 KiB with records that do not cross them, each preceded
/// by a CRC-32C (masked), a length and a type. A record, or several that belong together, is one batch of writes. It
/// begins with the sequence number of its first write and their count. So a gap between two batches shows how many are
/// lost.
package struct LogSurvey: Sendable, Equatable {
  package static let blockBytes = 32_768
  private static let headerBytes = 7
  /// Sequence number and count.
  private static let batchHeaderBytes = 12
  /// The engine's sequence numbers have 56 bits.
  private static let sequenceEnd: UInt64 = 1 << 56
  /// The number of damaged places described individually.
  package static let placesDescribed = 5

  package struct Damage: Sendable, Equatable {
    /// The offset in the file at which it begins.
    package var offset: Int
    /// The number of lost writes; nil if unknown.
    package var lostWrites: UInt64?
    /// Whether a batch follows it.
    package var isFollowed = false
  }

  /// Writes before the first damage or gap, and those after it.
  package private(set) var writesBefore: UInt64 = 0
  package private(set) var writesAfter: UInt64 = 0
  /// The first damaged places, and how many there are.
  package private(set) var damage: [Damage] = []
  package private(set) var damageCount = 0
  /// Writes missing between two batches, or before the first one.
  package private(set) var missingWrites: UInt64 = 0
  /// The offset of a last record cut off by a crash; nil if the log ends with a complete one.
  package private(set) var tornOffset: Int?
  /// The sequence number expected next; nil if none was read.
  package private(set) var nextSequence: UInt64?

  private var offset = 0
  /// A batch whose further records are still to come.
  private struct Beginning: Sendable, Equatable {
    var head: [UInt8] = []
    var offset: Int
  }

  private var begun: Beginning?
  /// Whether no batch has followed the last damage yet.
  private var isAfterDamage = false

  /// - Parameter nextSequence: The value at the end of the previous log.
  package init(nextSequence: UInt64? = nil) { self.nextSequence = nextSequence }

  package var isWhole: Bool { damageCount == 0 && missingWrites == 0 }

  /// Reads the next block: 32 KiB, or fewer bytes for the last one.
  package mutating func read(_ block: Span<UInt8>, isLast: Bool) {
    defer {
      offset += block.count
      // Parts of its last batch were not written.
      if isLast, let begun { tornOffset = begun.offset }
    }
    var place = 0
    while block.count - place >= Self.headerBytes {
      let length = Int(block[place + 4]) | Int(block[place + 5]) << 8
      let type = block[place + 6]
      // Preallocated room, or the end of a block.
      if type == 0, length == 0 { return }
      guard let part = Part(type) else { return damaged(at: offset + place) }
      let end = place + Self.headerBytes + length
      guard end <= block.count else {
        if isLast { tornOffset = offset + place } else { damaged(at: offset + place) }
        return
      }
      let stored =
        UInt32(block[place]) | UInt32(block[place + 1]) << 8 | UInt32(block[place + 2]) << 16
        | UInt32(block[place + 3]) << 24
      guard Self.masked(CRC32C.of(block.extracting(place + 6..<end))) == stored else {
        return damaged(at: offset + place)
      }
      take(part, block.extracting(place + Self.headerBytes..<end), at: offset + place)
      place = end
    }
    if isLast, place < block.count { tornOffset = offset + place }
  }

  private enum Part {
    case full, first, middle, last

    /// Types 5 to 8 are for recycled log files, which this store does not use.
    init?(_ type: UInt8) {
      switch type {
      case 1: self = .full
      case 2: self = .first
      case 3: self = .middle
      case 4: self = .last
      default: return nil
      }
    }
  }

  private mutating func take(_ part: Part, _ record: Span<UInt8>, at offset: Int) {
    switch part {
    case .full, .first:
      if let begun { damaged(at: begun.offset) }
      begun = Beginning(offset: offset)
    case .middle, .last:
      // Its beginning was in the damaged part.
      guard begun != nil else { return isAfterDamage ? () : damaged(at: offset) }
    }
    for index in record.indices where (begun?.head.count ?? 0) < Self.batchHeaderBytes {
      begun?.head.append(record[index])
    }
    if part == .full || part == .last { endBatch() }
  }

  private mutating func endBatch() {
    guard let batch = begun else { return }
    begun = nil
    let head = batch.head
    guard head.count == Self.batchHeaderBytes else { return damaged(at: batch.offset) }
    let sequence = head[0..<8].reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
    let count = head[8..<12].reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
    guard sequence < Self.sequenceEnd else { return damaged(at: batch.offset) }
    let gap = nextSequence.map { sequence > $0 ? sequence - $0 : 0 }
    if isAfterDamage {
      if damageCount <= Self.placesDescribed {
        damage[damage.count - 1].lostWrites = gap
        damage[damage.count - 1].isFollowed = true
      }
    } else {
      missingWrites += gap ?? 0
    }
    isAfterDamage = false
    nextSequence = sequence + count
    if isWhole { writesBefore += count } else { writesAfter += count }
  }

  private mutating func damaged(at offset: Int) {
    begun = nil
    // Everything up to the next batch counts as one damage.
    guard !isAfterDamage else { return }
    isAfterDamage = true
    damageCount += 1
    if damageCount <= Self.placesDescribed { damage.append(Damage(offset: offset)) }
  }

  /// As the engine stores it: a CRC over bytes that contain CRCs would be weak.
  static func masked(_ crc: UInt32) -> UInt32 { (crc >> 15 | crc << 17) &+ 0xa282_ead8 }
}

/// The checksum of RFC 3720, section 12.1.
enum CRC32C {
  private static let table: [UInt32] = (0..<256).map { index in
    (0..<8).reduce(UInt32(index)) { crc, _ in
      crc & 1 == 1 ? crc >> 1 ^ 0x82f6_3b78 : crc >> 1
    }
  }

  static func of(_ bytes: Span<UInt8>) -> UInt32 {
    var crc = UInt32.max
    for index in bytes.indices {
      crc = table[Int(UInt8(truncatingIfNeeded: crc) ^ bytes[index])] ^ crc >> 8
    }
    return ~crc
  }
}
