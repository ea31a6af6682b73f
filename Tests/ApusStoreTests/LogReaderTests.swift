import Testing

@testable import ApusStore

/// What a crash leaves at the end of a log, and what it cannot leave.
@Suite("The end of a log")
struct LogReaderTests {
  private static let sectorBytes = 512

  private func record(_ byte: UInt8, count: Int, type: UInt8 = 1) -> [UInt8] {
    let content = [type] + [UInt8](repeating: byte, count: count)
    let checksum = CRC32C.of(content.span).masked
    let head = (0..<4).map { UInt8(truncatingIfNeeded: checksum >> (8 * $0)) }
    return head + [UInt8(count & 0xff), UInt8(count >> 8)] + content
  }

  private func zeros(_ count: Int) -> [UInt8] { [UInt8](repeating: 0, count: count) }

  private enum End: Equatable {
    case clean
    case torn(Int)
    case damage(Int)
  }

  /// The first end or damage in a log, and the number of records read.
  private func read(_ log: [UInt8]) -> (end: End, records: Int) {
    var reader = LogReader()
    var end: End?
    var records = 0
    var start = 0
    repeat {
      let next = min(log.count, start + LogReader.blockBytes)
      let block = log.span.extracting(start..<next)
      while let item = reader.next(in: block, isLast: next == log.count) {
        switch item {
        case .record: records += 1
        case .torn(let offset): end = end ?? .torn(offset)
        case .damage(let offset): end = end ?? .damage(offset)
        }
      }
      start = next
    } while start < log.count
    return (end ?? .clean, records)
  }

  private func expect(_ log: [UInt8], _ end: End, records: Int) {
    let found = read(log)
    #expect(found.end == end && found.records == records)
  }

  @Test("Room that was allocated in advance is a clean end, in any number of blocks")
  func room() {
    expect([], .clean, records: 0)
    expect(record(1, count: 100) + zeros(100_000), .clean, records: 1)
    expect(record(1, count: 32_755), .clean, records: 1)
    expect(record(1, count: 32_755) + zeros(6), .clean, records: 1)
    expect(record(1, count: 32_755) + zeros(6) + record(2, count: 9), .clean, records: 2)
  }

  @Test("Records behind room are damage, at its beginning", arguments: [100, 40_000, 70_000])
  func behindRoom(count: Int) {
    let log = record(1, count: 100) + zeros(count) + record(2, count: 50)
    #expect(read(log).end == .damage(107))
    // Those in later blocks are read.
    let block = LogReader.blockBytes
    let aligned = record(1, count: 100) + zeros(2 * block - 107) + record(2, count: 50)
    expect(aligned, .damage(107), records: 2)
  }

  @Test("A power cut leaves sectors zero, and what was written behind them is no record")
  func sectors() {
    let first = record(1, count: 100)
    let torn = first + zeros(Self.sectorBytes - first.count) + [UInt8](repeating: 7, count: 300)
    expect(torn, .torn(107), records: 1)
    // One that was written in part begins within a sector.
    expect(Array(torn.prefix(512)) + [0] + torn.suffix(300), .damage(107), records: 1)
    // A record shows that a later write was synced.
    expect(torn + record(2, count: 20), .damage(107), records: 1)
  }

  @Test("A power cut within a header leaves its checksum alone")
  func cutHeader() {
    let first = record(1, count: Self.sectorBytes - 7 - 4)
    let second = record(2, count: 50)
    expect(first + second.prefix(4) + zeros(200), .torn(508), records: 1)
    // In the middle of a sector it is damage.
    let short = record(1, count: 100)
    expect(short + second.prefix(4) + zeros(200), .damage(107), records: 1)
  }

  @Test("A record that is not there to its end was cut off", arguments: 1...56)
  func cut(length: Int) {
    expect(record(1, count: 100) + record(2, count: 50).prefix(length), .torn(107), records: 1)
  }

  @Test("A whole record whose length is beyond the end of the file is damaged", arguments: 0..<16)
  func length(bit: Int) {
    var damaged = record(2, count: 50)
    damaged[4 + bit / 8] ^= 1 << (bit % 8)
    for more in [[], record(3, count: 20), record(3, count: 3000)] {
      expect(record(1, count: 100) + damaged + more, .damage(107), records: 1)
    }
  }

  @Test("Every flipped bit in a header is damage, also in the last record", arguments: 0..<56)
  func header(bit: Int) {
    var damaged = record(2, count: 50)
    damaged[bit / 8] ^= 1 << (bit % 8)
    for more in [[], record(3, count: 20)] {
      expect(record(1, count: 100) + damaged + more, .damage(107), records: 1)
    }
  }

  @Test("A record whose beginning is damaged, and that follows something cut off, is found")
  func behindCut() {
    // The length and the content are damaged: nothing of it matches its checksum.
    var damaged = record(2, count: 50)
    damaged[5] = 0x10
    damaged[30] ^= 1
    expect(record(1, count: 100) + damaged, .torn(107), records: 1)
    expect(record(1, count: 100) + damaged + record(3, count: 20), .damage(107), records: 1)
  }
}
