import ApusModel

/// The lines of one worker that the store does not have yet, in memory that outlives the process.
///
/// Lines are written to the store in groups, and answers do not wait for that. The journal has each line before the
/// answer is sent: after a crash the next start reads them from it. Each group records in `meta` up to which position
/// of the journal it has the lines (`JournalMarker`), so that no line counts twice.
///
/// Writing a record is a copy in memory; the system keeps the page when the process dies. It is not synced: a power
/// loss may lose the lines of the last second.
///
/// One thread uses it at a time.
package final class LedgerJournal: @unchecked Sendable {
  private let memory: JournalMemory
  private let worker: UInt16
  private let ringBytes: Int
  /// The position of the oldest record that may be needed.
  private var start: UInt64
  /// The position of the next record.
  private(set) var end: UInt64
  /// The position up to which the group being written has the lines.
  private var sealed: UInt64
  /// The position up to which the store has them.
  private var durable: UInt64
  /// Whether lines of the gathering chunk are missing, so that no more of it can be added.
  private var isCutOff = false
  private var hasOverflowed = false

  /// Continues the journal in `memory`, or begins one there.
  ///
  /// - Parameter durable: The position up to which the store has the lines.
  package init(_ memory: JournalMemory, worker: UInt16, behind durable: UInt64) {
    self.memory = memory
    self.worker = worker
    let header = JournalHeader(memory.bytes)
    let ringBytes =
      header?.ringBytes ?? (memory.count - JournalFormat.headerByteCount) & ~7
    self.ringBytes = ringBytes
    let content = JournalContent(memory.bytes, behind: durable)
    let isEmpty = content?.chunks.isEmpty ?? true
    if let content, !isEmpty {
      (start, end) = (content.start, content.end)
    } else {
      // A new round, in which leftovers of earlier ones are invalid.
      let latest = max(durable, content?.end ?? 0)
      start = (latest / UInt64(ringBytes) + 1) * UInt64(ringBytes)
      end = start
    }
    sealed = durable
    self.durable = durable
    let fresh = JournalFormat.header(worker: worker, ringBytes: ringBytes, start: start)
    memory.write(fresh.span, at: 0)
    clearFree()
    memory.rest()
  }

  /// After a power loss, leftovers of an earlier run must not be read as records that follow.
  private func clearFree() {
    let head = JournalFormat.headerByteCount
    let used = offset(of: start)
    let free = offset(of: end)
    if start == end {
      memory.clear(head..<head + ringBytes)
    } else if used < free {
      memory.clear(head..<head + used)
      memory.clear(head + free..<head + ringBytes)
    } else {
      memory.clear(head + free..<head + used)
    }
  }

  private func offset(of position: UInt64) -> Int { Int(position % UInt64(ringBytes)) }

  // MARK: Writing

  /// Adds lines of a chunk; `beginsChunk`: including its first byte. Lines that do not fit are only in memory, as are
  /// all that follow in their chunk.
  func append(_ lines: Span<UInt8>, beginsChunk: Bool) {
    if beginsChunk { isCutOff = false }
    guard !isCutOff, makeRoom(for: lines.count) else {
      if !isCutOff { hasOverflowed = true }
      isCutOff = true
      return
    }
    put(beginsChunk ? .chunk : .lines, lines)
    end += UInt64(JournalFormat.recordHeaderByteCount + JournalFormat.padded(lines.count))
  }

  /// Makes room for a record of that size at `end`; false if there is none.
  private func makeRoom(for byteCount: Int) -> Bool {
    let size = JournalFormat.recordHeaderByteCount + JournalFormat.padded(byteCount)
    let rest = ringBytes - offset(of: end)
    let skipped = size > rest ? rest : 0
    guard end - start + UInt64(skipped + size) <= UInt64(ringBytes) else { return false }
    guard skipped > 0 else { return true }
    if rest >= JournalFormat.recordHeaderByteCount { put(.skip, Span()) }
    end += UInt64(rest)
    return true
  }

  private func put(_ kind: JournalFormat.Kind, _ payload: Span<UInt8>) {
    let place = JournalFormat.headerByteCount + offset(of: end)
    let header = JournalFormat.recordHeader(kind, payload, position: end)
    memory.write(payload, at: place + JournalFormat.recordHeaderByteCount)
    memory.store(header.word, at: place + 8)
    memory.store(header.checksum, at: place)
  }

  /// Whether lines did not fit since the last call.
  package func takeOverflow() -> Bool {
    defer { hasOverflowed = false }
    return hasOverflowed
  }

  // MARK: Groups

  /// Records that `group` has all lines so far.
  func seal(into group: inout WriteGroup) {
    sealed = end
    guard sealed > durable else { return }
    JournalMarker.put(sealed, worker: worker, into: &group)
  }

  /// The group was written: its lines are no longer needed here.
  func release() {
    guard sealed > durable else { return }
    durable = sealed
    start = sealed
    // A new round if nothing of this one is needed: few lines then use few pages.
    if start == end, offset(of: end) > 0 {
      end = (end / UInt64(ringBytes) + 1) * UInt64(ringBytes)
      start = end
    }
    memory.store(start, at: JournalFormat.startOffset)
  }
}

/// The position up to which the store has the lines of a worker's journal, in `meta`.
///
/// Key: "journal/" (8), worker (2). Value: version (1), position (8).
package enum JournalMarker {
  static let version: UInt8 = 1
  private static let name: StaticString = "journal/"

  package static func key(worker: UInt16) -> [UInt8] {
    var bytes = name.bytes
    bytes.append(bigEndian: worker)
    return bytes
  }

  package static func put(_ position: UInt64, worker: UInt16, into group: inout WriteGroup) {
    var value = [version]
    value.append(bigEndian: position)
    let key = key(worker: worker)
    group.put(.meta, key: key.span, value: value.span)
  }

  static func decode(_ value: Span<UInt8>) throws(RecordError) -> UInt64 {
    var cursor = RecordCursor()
    let version: UInt8 = try cursor.integer("version", in: value)
    guard version == Self.version else { throw .unknownVersion(version) }
    let position: UInt64 = try cursor.integer("position", in: value)
    try cursor.end(in: value)
    guard position <= .max / 2 else { throw .malformed(field: "position") }
    return position
  }
}

extension StoreReader {
  /// The position up to which the store has the lines of the worker's journal; 0 if it has none.
  package func journalPosition(of worker: UInt16) throws(StoreError) -> UInt64 {
    let key = JournalMarker.key(worker: worker)
    guard let value = try get(.meta, key: key.span) else { return 0 }
    do throws(RecordError) {
      return try JournalMarker.decode(value.span)
    } catch {
      throw .corrupted(path: "meta/journal", detail: "\(error)")
    }
  }
}
