import ApusModel

/// The lines of one worker that the store does not have yet, where they outlive the process.
///
/// Lines go to the store in groups, and an answer does not wait for that. The journal has each line before the answer
/// leaves: after a crash the next start takes them from there. Each group says in `meta` up to which position of the
/// journal it has the lines (`JournalMarker`), so that no line counts twice.
///
/// Writing a record is a copy in memory; the system keeps the page when the process dies. It is not synced: a power
/// cut may take the lines of the last second.
///
/// One thread uses it at a time.
package final class LedgerJournal: @unchecked Sendable {
  private let memory: JournalMemory
  private let worker: UInt16
  private let ringBytes: Int
  /// The position of the oldest record that may be needed.
  private var start: UInt64
  /// Where the next record goes.
  private(set) var end: UInt64
  /// Up to where the group that is being written has the lines.
  private var sealed: UInt64
  /// Up to where the store has them.
  private var durable: UInt64
  /// Whether the chunk that gathers lacks lines, so that no more of it can be taken.
  private var isCutOff = false
  private var hasOverflowed = false

  /// Continues the journal in `memory`, or begins one where that has none.
  ///
  /// - Parameter durable: The position up to which the store has the lines.
  package init(_ memory: JournalMemory, worker: UInt16, behind durable: UInt64) {
    self.memory = memory
    self.worker = worker
    let bytes = memory.copied()
    let header = JournalHeader(bytes.span)
    let ringBytes =
      header?.ringBytes ?? (memory.count - JournalFormat.headerByteCount) & ~7
    self.ringBytes = ringBytes
    let content = JournalContent(bytes.span, behind: durable)
    let isEmpty = content?.chunks.isEmpty ?? true
    if let content, !isEmpty {
      (start, end) = (content.start, content.end)
    } else {
      // A round of its own: what is left of earlier ones means nothing there.
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

  /// What a cut of power left of an earlier run must not count as a record that follows.
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

  /// Adds lines of a chunk; `beginsChunk`: from its first byte on. What finds no room is in memory alone, with all
  /// that follows in its chunk.
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

  /// Sees to it that a record of so many bytes can be written where `end` is; false where there is no room.
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

  /// Whether lines found no room since the last call.
  package func takeOverflow() -> Bool {
    defer { hasOverflowed = false }
    return hasOverflowed
  }

  // MARK: Groups

  /// `group` has all lines so far.
  func seal(into group: inout WriteGroup) {
    sealed = end
    guard sealed > durable else { return }
    JournalMarker.put(sealed, worker: worker, into: &group)
  }

  /// The group was written: its lines need no place any more.
  func release() {
    guard sealed > durable else { return }
    durable = sealed
    start = sealed
    // A round of its own, where nothing is needed of this one: few lines then take few pages.
    if start == end, offset(of: end) > 0 {
      end = (end / UInt64(ringBytes) + 1) * UInt64(ringBytes)
      start = end
    }
    memory.store(start, at: JournalFormat.startOffset)
  }
}

/// Up to which position of a worker's journal the store has the lines, in `meta`.
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
  /// Up to which position of the worker's journal the store has the lines; 0 where it has none.
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
