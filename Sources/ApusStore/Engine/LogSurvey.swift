/// Surveys which writes of a log of the engine are readable, for an operator who must decide about a damaged store.
///
/// A record, or several that belong together, is one batch of writes. It begins with the sequence number of its first
/// write and their count. So a gap between two batches shows how many are lost.
package struct LogSurvey: Sendable, Equatable {
  package static let blockBytes = LogReader.blockBytes
  /// Sequence number and count.
  private static let batchHeaderBytes = 12
  /// The engine's sequence numbers have 56 bits.
  private static let sequenceEnd: UInt64 = 1 << 56
  /// The number of damaged places described individually.
  package static let placesDescribed = 5

  package struct Damage: Sendable, Equatable {
    /// The offset in the file at which it begins.
    package var offset: Int
    /// The number of bytes up to the next batch, or to the end of the file.
    package var bytes: Int
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

  private var reader = LogReader()
  private var byteCount = 0
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
    while let item = reader.next(in: block, isLast: isLast) {
      switch item {
      case .record(let part, let content, let offset):
        take(part, block.extracting(content), at: offset)
      case .damage(let offset): damaged(at: offset)
      case .torn(let offset): tornOffset = offset
      }
    }
    byteCount += block.count
    guard isLast else { return }
    // Parts of its last batch were not written.
    if let begun { tornOffset = begun.offset }
    endDamage(at: byteCount)
  }

  private mutating func take(_ part: LogReader.Part, _ record: Span<UInt8>, at offset: Int) {
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
      endDamage(at: batch.offset)
    } else {
      missingWrites += gap ?? 0
    }
    nextSequence = sequence + count
    if isWhole { writesBefore += count } else { writesAfter += count }
  }

  private mutating func damaged(at offset: Int) {
    begun = nil
    // Everything up to the next batch counts as one damage.
    guard !isAfterDamage else { return }
    isAfterDamage = true
    damageCount += 1
    if damageCount <= Self.placesDescribed { damage.append(Damage(offset: offset, bytes: 0)) }
  }

  private mutating func endDamage(at offset: Int) {
    guard isAfterDamage else { return }
    isAfterDamage = false
    guard damageCount <= Self.placesDescribed else { return }
    damage[damage.count - 1].bytes = offset - damage[damage.count - 1].offset
  }
}
