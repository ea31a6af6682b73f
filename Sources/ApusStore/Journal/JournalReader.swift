package import ApusModel

/// The content of a journal, read from its bytes, which may end anywhere.
package struct JournalContent: Sendable, Hashable {
  package var worker: UInt16
  /// The position of the oldest record that may be needed.
  package var start: UInt64
  /// The position after the last record.
  package var end: UInt64
  /// Chunks of lines, oldest first, that begin at or after the requested position.
  package var chunks: [[UInt8]] = []

  /// Reads a journal up to its first incomplete record; nil if `bytes` are not one of this version.
  ///
  /// - Parameter durable: The position up to which the store has the lines.
  package init?(_ bytes: Span<UInt8>, behind durable: UInt64) {
    guard let header = JournalHeader(bytes) else { return nil }
    worker = header.worker
    start = header.start
    end = header.start
    let ring = bytes.extracting(last: bytes.count - JournalFormat.headerByteCount)
      .extracting(first: header.ringBytes)
    while let record = JournalRecord(in: ring, at: end, start: start) {
      let place = end
      end += UInt64(record.byteCount)
      guard place >= durable else { continue }
      switch record.kind {
      case .skip: continue
      case .chunk: chunks.append(ring.extracting(record.payload).copied())
      case .lines:
        // Only after a chunk that the store has, which it has completely.
        guard !chunks.isEmpty else { continue }
        chunks[chunks.count - 1] += ring.extracting(record.payload).copied()
      }
    }
  }

  /// The lines of all chunks, each as far as it is readable.
  package var lines: [LedgerRecord] {
    var lines: [LedgerRecord] = []
    for chunk in chunks { try? LedgerChunk.forEach(in: chunk.span) { lines.append($0) } }
    return lines
  }
}

struct JournalHeader {
  var worker: UInt16
  var ringBytes: Int
  var start: UInt64

  init?(_ bytes: Span<UInt8>) {
    var cursor = RecordCursor()
    do throws(RecordError) {
      let magic = try cursor.run(8, "magic", in: bytes)
      let version: UInt32 = try cursor.integer("version", in: bytes)
      worker = try cursor.integer("worker", in: bytes)
      let _: UInt16 = try cursor.integer("zero", in: bytes)
      let ringBytes: UInt64 = try cursor.integer("ring", in: bytes)
      start = try cursor.integer("start", in: bytes)
      let isWhole =
        bytes.extracting(magic).copied() == JournalFormat.magic.bytes
        && version == JournalFormat.version && ringBytes % 8 == 0 && ringBytes > 0
        && ringBytes <= UInt64(max(0, bytes.count - JournalFormat.headerByteCount))
      guard isWhole, start % 8 == 0, start < .max / 2 else { return nil }
      self.ringBytes = Int(ringBytes)
    } catch {
      return nil
    }
  }
}

/// A record in the ring.
private struct JournalRecord {
  var kind: JournalFormat.Kind
  var payload: Range<Int>
  /// Bytes up to the next record.
  var byteCount: Int

  init?(in ring: Span<UInt8>, at position: UInt64, start: UInt64) {
    let head = JournalFormat.recordHeaderByteCount
    guard position - start < UInt64(ring.count) else { return nil }
    let offset = Int(position % UInt64(ring.count))
    let room = ring.count - offset
    guard room >= head else {
      (kind, payload, byteCount) = (.skip, offset..<offset, room)
      return
    }
    // In bounds: see above.
    let checksum = UInt64(
      bigEndian: unsafe ring.bytes.unsafeLoadUnaligned(fromByteOffset: offset, as: UInt64.self))
    let word = UInt64(
      bigEndian: unsafe ring.bytes.unsafeLoadUnaligned(fromByteOffset: offset + 8, as: UInt64.self))
    let count = Int(UInt32(truncatingIfNeeded: word))
    guard let kind = JournalFormat.Kind(rawValue: UInt8(word >> 56)), (word << 8) >> 40 == 0,
      JournalFormat.padded(count) <= room - head
    else { return nil }
    payload = offset + head..<offset + head + count
    self.kind = kind
    byteCount = kind == .skip ? room : head + JournalFormat.padded(count)
    let bytes = ring.extracting(payload)
    guard
      JournalFormat.checksum(bytes, kind: kind.rawValue, position: position) == checksum
    else { return nil }
  }
}
