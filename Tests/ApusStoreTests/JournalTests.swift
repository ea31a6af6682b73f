import ApusRandom
import ApusModel
import Testing

@testable import ApusStore

@Suite("File format of a ledger journal")
struct JournalTests {
  /// Worker 258 in its second round of 256 bytes, with two records; byte by byte from the layout in `JournalFormat`.
  static let header = hex(
    """
    61 70 75 73 6a 72 6e 6c  # "apusjrnl"
    00 00 00 01  # version
    01 02  # worker
    00 00
    00 00 00 00 00 00 01 00  # bytes of the ring
    00 00 00 00 00 00 01 00  # start
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    """)
  static let chunkHeader = hex(
    """
    7e f5 04 ef 3d d9 d6 75  # checksum
    02 00 00 00  # begins a chunk
    00 00 00 4d  # 77 bytes
    """)
  static let linesHeader = hex(
    """
    9b 2b 2e 62 8d 6f e1 7f  # checksum
    03 00 00 00  # continues it
    00 00 00 04  # 4 bytes
    """)
  /// One line that introduces a notification, and one that refers to it.
  static let lines = Array(LedgerChunkTests.further[..<4])
  static let records =
    chunkHeader + LedgerChunkTests.chunk + [0, 0, 0] + linesHeader + lines + [0, 0, 0, 0]
  static let journal = header + records + [UInt8](repeating: 0, count: 256 - records.count)

  private func read(_ bytes: [UInt8], behind durable: UInt64) -> JournalContent? {
    JournalContent(bytes.span, behind: durable)
  }

  private func append(_ bytes: [UInt8], to journal: LedgerJournal, beginsChunk: Bool = true) {
    journal.append(bytes.span, beginsChunk: beginsChunk)
  }

  @Test("A journal is read according to the layout")
  func reading() throws {
    let content = try #require(read(Self.journal, behind: 0))
    #expect(content.worker == 258 && content.start == 0x100 && content.end == 0x178)
    #expect(content.chunks == [LedgerChunkTests.chunk + Self.lines])
    #expect(content.lines == Array(LedgerChunkTests.records[..<2]))
  }

  @Test("A journal is written according to the layout")
  func writing() {
    let memory = JournalMemory(byteCount: 64 + 256)
    let journal = LedgerJournal(memory, worker: 258, behind: 0)
    append(LedgerChunkTests.chunk, to: journal)
    append(Self.lines, to: journal, beginsChunk: false)
    #expect(memory.bytes.copied() == Self.journal)
    #expect(journal.end == 0x178)
  }

  @Test("Lines up to the store's position are not returned")
  func durable() throws {
    let content = try #require(read(Self.journal, behind: 0x178))
    #expect(content.end == 0x178 && content.chunks.isEmpty)
  }

  @Test("A torn record ends the journal, whichever bit is wrong")
  func torn() throws {
    for bit in (64 + 96) * 8..<(64 + 96 + 20) * 8 {
      var bytes = Self.journal
      bytes[bit / 8] ^= 1 << UInt8(bit % 8)
      let content = try #require(read(bytes, behind: 0))
      #expect(content.chunks == [LedgerChunkTests.chunk], "bit \(bit)")
    }
    for bit in 64 * 8..<(64 + 16 + 77) * 8 {
      var bytes = Self.journal
      bytes[bit / 8] ^= 1 << UInt8(bit % 8)
      let content = try #require(read(bytes, behind: 0))
      #expect(content.chunks.isEmpty && content.end == 0x100, "bit \(bit)")
    }
  }

  @Test("A file of any length or content is read or rejected")
  func anyLength() {
    for count in 0...Self.journal.count {
      let content = read(Array(Self.journal[..<count]), behind: 0)
      #expect((content != nil) == (count == Self.journal.count), "\(count) bytes")
    }
    for index in [0, 7, 11, 20, 31] {
      var bytes = Self.journal
      bytes[index] ^= 0x11
      #expect(read(bytes, behind: 0) == nil, "byte \(index)")
    }
  }

  @Test("A record of an earlier round at the same offset is invalid")
  func earlierRound() throws {
    var bytes = Self.journal
    // The same records, with a start that places them in the third round.
    bytes[30] = 0x02
    let content = try #require(read(bytes, behind: 0))
    #expect(content.chunks.isEmpty && content.end == 0x200)
  }

  // MARK: Rounds

  /// Appends and releases chunks by a seed, and reads after each step.
  @Test(
    "Over many rounds the journal has exactly the lines that the store lacks", arguments: 0..<20)
  func rounds(seed: UInt64) throws {
    var random = SeededRandom(seed: seed)
    let memory = JournalMemory(byteCount: 64 + 1024)
    var journal = LedgerJournal(memory, worker: 1, behind: 0)
    var durable: UInt64 = 0
    var sealed: UInt64 = 0
    var gathering: [[UInt8]] = []
    var underWay: [[UInt8]] = []
    var number: UInt8 = 0
    for _ in 0..<400 {
      switch random.next() % 8 {
      case 0:
        var group = WriteGroup()
        journal.seal(into: &group)
        sealed = journal.end
        underWay += gathering
        gathering = []
      case 1:
        journal.release()
        durable = sealed
        underWay = []
      case 2: journal = LedgerJournal(memory, worker: 1, behind: durable)
      default:
        number &+= 1
        let chunk = [UInt8](repeating: number, count: Int(random.next() % 70))
        append(chunk, to: journal)
        if !journal.takeOverflow() { gathering.append(chunk) }
      }
      let bytes = memory.bytes.copied()
      let content = try #require(read(bytes, behind: durable))
      #expect(content.chunks == underWay + gathering)
    }
  }

  @Test(
    "Lines that do not fit cut off their chunk, are reported once, and the next chunk is accepted")
  func overflow() throws {
    let memory = JournalMemory(byteCount: 64 + 128)
    let journal = LedgerJournal(memory, worker: 1, behind: 0)
    func append(_ byte: UInt8, _ count: Int, begins: Bool) {
      self.append([UInt8](repeating: byte, count: count), to: journal, beginsChunk: begins)
    }
    func chunks(behind position: UInt64 = 0) throws -> [[UInt8]] {
      let bytes = memory.bytes.copied()
      return try #require(read(bytes, behind: position)).chunks
    }
    append(1, 64, begins: true)
    #expect(!journal.takeOverflow())
    append(2, 64, begins: false)
    append(3, 1, begins: false)
    #expect(journal.takeOverflow() && !journal.takeOverflow())
    #expect(try chunks() == [[UInt8](repeating: 1, count: 64)])
    var group = WriteGroup()
    journal.seal(into: &group)
    journal.release()
    append(4, 64, begins: true)
    #expect(!journal.takeOverflow())
    #expect(try chunks() == [[UInt8](repeating: 4, count: 64)])
  }

  @Test("Leftovers of an earlier run after a gap do not follow new records")
  func hole() throws {
    let memory = JournalMemory(byteCount: 64 + 256)
    var journal = LedgerJournal(memory, worker: 1, behind: 0)
    for byte in 1...3 as ClosedRange<UInt8> {
      append([UInt8](repeating: byte, count: 16), to: journal)
    }
    // A power loss lost the second record, and kept the third.
    memory.clear(64 + 32..<64 + 64)
    journal = LedgerJournal(memory, worker: 1, behind: 0)
    append([UInt8](repeating: 4, count: 16), to: journal)
    let bytes = memory.bytes.copied()
    let content = try #require(read(bytes, behind: 0))
    #expect(content.chunks.map(\.first) == [1, 4])
  }
}
