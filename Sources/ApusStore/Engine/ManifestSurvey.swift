/// Surveys the engine's list of tables (its MANIFEST), which says also which logs are in use.
///
/// It has the format of a log. Its records are edits of the list: those of RocksDB's version_edit.h, fields that begin
/// with a tag.
struct ManifestSurvey: Sendable {
  /// The offset of the first damage; nil if there is none.
  private(set) var damageOffset: Int?
  /// Edits before the first damage, and those after it.
  private(set) var editsBefore = 0
  private(set) var editsAfter = 0
  /// The sequence number of the last write when it was recorded: the logs in use have no fewer.
  private(set) var lastSequence: UInt64 = 0

  private var minimumLog: UInt64 = 0
  /// The oldest log with rows of a family that are in no table, by the family's number.
  private var logs: [UInt64: UInt64] = [:]
  /// Whether there was an edit of an unknown form, so that the other values may be too low.
  private var isUnclear = false

  private var reader = LogReader()
  /// The content of a record whose further parts are still to come.
  private var begun: [UInt8]?

  var isWhole: Bool { damageOffset == nil }

  /// The number of the oldest log that the engine reads when it opens the store; 0 if unknown.
  var firstLog: UInt64 {
    guard isWhole, !isUnclear else { return 0 }
    return max(minimumLog, logs.values.min() ?? 0)
  }

  /// Reads the next block: 32 KiB, or fewer bytes for the last one.
  mutating func read(_ block: Span<UInt8>, isLast: Bool) {
    while let item = reader.next(in: block, isLast: isLast) {
      switch item {
      case .record(let part, let content, let offset):
        take(part, block.extracting(content), at: offset)
      case .damage(let offset): damaged(at: offset)
      case .torn: begun = nil
      }
    }
  }

  private mutating func damaged(at offset: Int) {
    begun = nil
    damageOffset = damageOffset ?? offset
  }

  private mutating func take(_ part: LogReader.Part, _ content: Span<UInt8>, at offset: Int) {
    switch part {
    case .full, .first:
      if begun != nil { damaged(at: offset) }
      begun = []
    case .middle, .last:
      guard begun != nil else { return damaged(at: offset) }
    }
    for index in content.indices { begun?.append(content[index]) }
    guard part == .full || part == .last, let bytes = begun else { return }
    begun = nil
    if isWhole { editsBefore += 1 } else { editsAfter += 1 }
    apply(ManifestEdit(bytes))
  }

  private mutating func apply(_ edit: ManifestEdit?) {
    guard let edit else { return isUnclear = true }
    lastSequence = max(lastSequence, edit.lastSequence ?? 0)
    minimumLog = max(minimumLog, edit.minimumLog ?? 0)
    if edit.dropsFamily {
      logs[edit.family] = nil
    } else if let log = edit.log {
      logs[edit.family] = log
    }
  }
}

/// One edit, of which only the fields about logs are kept.
private struct ManifestEdit {
  private(set) var family: UInt64 = 0
  private(set) var dropsFamily = false
  private(set) var log: UInt64?
  private(set) var minimumLog: UInt64?
  private(set) var lastSequence: UInt64?

  private enum Tag: UInt64 {
    case comparator = 1
    case log, nextFile, lastSequence, compactCursor, deletedFile
    case previousLog = 9
    case minimumLog
    case newFile = 103
    case family = 200
    case addFamily, dropFamily, maximumFamily
    case inAtomicGroup = 300

    /// Fields with this bit have their length, so that versions that do not know them can skip them.
    static let skippable: UInt64 = 1 << 13
  }

  private var bytes: ArraySlice<UInt8>

  /// Nil if the form of an edit is unknown.
  init?(_ edit: [UInt8]) {
    bytes = edit[...]
    while !bytes.isEmpty {
      guard let tag = takeNumber(), takeField(tag) else { return nil }
    }
  }

  private mutating func takeField(_ tag: UInt64) -> Bool {
    switch Tag(rawValue: tag) {
    case .log: return take(\.log)
    case .minimumLog: return take(\.minimumLog)
    case .lastSequence: return take(\.lastSequence)
    case .family:
      guard let number = takeNumber() else { return false }
      family = number
    case .dropFamily: dropsFamily = true
    case .nextFile, .previousLog, .maximumFamily, .inAtomicGroup: return skipNumbers(1)
    case .comparator, .addFamily: return skipBytes()
    case .compactCursor: return skipNumbers(1) && skipBytes()
    case .deletedFile: return skipNumbers(2)
    case .newFile: return skipTable()
    case nil: return tag & Tag.skippable != 0 && skipBytes()
    }
    return true
  }

  private mutating func take(_ field: WritableKeyPath<ManifestEdit, UInt64?>) -> Bool {
    self[keyPath: field] = takeNumber()
    return self[keyPath: field] != nil
  }

  /// Level, number and size, the smallest and the largest key, their sequence numbers; then further fields, each with
  /// its length, and a mark.
  private mutating func skipTable() -> Bool {
    guard skipNumbers(3), skipBytes(), skipBytes(), skipNumbers(2) else { return false }
    let end = 1
    while let tag = takeNumber() {
      if tag == end { return true }
      guard skipBytes() else { return false }
    }
    return false
  }

  private mutating func skipNumbers(_ count: Int) -> Bool {
    for _ in 0..<count where takeNumber() == nil { return false }
    return true
  }

  private mutating func skipBytes() -> Bool {
    guard let count = takeNumber(), count <= UInt64(bytes.count) else { return false }
    bytes = bytes.dropFirst(Int(count))
    return true
  }

  /// Seven bits in each byte, the lowest first; the last byte is below 128.
  private mutating func takeNumber() -> UInt64? {
    var number: UInt64 = 0
    for shift in stride(from: UInt64(0), to: 64, by: 7) {
      guard let byte = bytes.popFirst() else { return nil }
      number |= UInt64(byte & 0x7f) << shift
      if byte < 0x80 { return number }
    }
    return nil
  }
}
