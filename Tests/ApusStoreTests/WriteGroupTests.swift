import ApusModel
import Testing

@testable import ApusStore

@Suite("Write groups")
struct WriteGroupTests {
  @Test("A group has the bytes of RocksDB's write batch")
  func layout() {
    var group = WriteGroup()
    group.put(.mailbox, [0x61, 0x62], [0x31, 0x32, 0x33])
    group.delete(.ledger, [0x78])
    #expect(group.count == 2)
    #expect(group.byteCount == 13)
    let header = [UInt8](repeating: 0, count: 12)
    #expect(
      group.bytes == header + [
        // kTypeColumnFamilyValue, family 1, "ab", "123"
        0x05, 0x01, 0x02, 0x61, 0x62, 0x03, 0x31, 0x32, 0x33,
        // kTypeColumnFamilyDeletion, family 5, "x"
        0x04, 0x05, 0x01, 0x78,
      ])
  }

  @Test("Lengths from 128 on take two bytes, from 16,384 on three")
  func varints() {
    var group = WriteGroup()
    group.put(.devices, [1], [UInt8](repeating: 7, count: 300))
    // 300 = 0b10_0101100
    #expect(Array(group.bytes[12..<18]) == [0x05, 0x02, 0x01, 0x01, 0xac, 0x02])
    #expect(group.byteCount == 6 + 300)
    group.removeAll()
    #expect(group.count == 0)
    #expect(group.byteCount == 0)
    group.put(.devices, [1], [UInt8](repeating: 7, count: 16_384))
    #expect(Array(group.bytes[16..<19]) == [0x80, 0x80, 0x01])
  }

  @Test("A group reuses the memory of a committed one, and is empty")
  func recycled() {
    let store = MemoryStore(mode: .manual)
    for round in 0..<3 {
      var group = store.makeGroup()
      #expect(group.count == 0 && group.byteCount == 0)
      #expect(group.bytes == [UInt8](repeating: 0, count: 12))
      #expect((group.bytes.capacity >= 10_000) == (round > 0))
      group.put(.meta, [1], [UInt8](repeating: 7, count: 10_000))
      store.commit(group) { #expect($0 == nil) }
      store.runCommits()
    }
  }

  @Test("A queue that is never empty returns everything in order, in turns of its size")
  func turns() {
    let queue = CommitQueue(maximumPendingBytes: .max, mergeBytes: 40)
    let recorder = Recorder<Int>()
    var submitted = 0
    func submit() {
      let number = submitted
      submitted += 1
      var group = queue.makeGroup()
      group.put(.meta, [UInt8(number)], [])  // 17 bytes with the header
      queue.submit(group) { _ in recorder.append(number) }
    }
    for _ in 0..<10 { submit() }
    for _ in 0..<50 {
      guard case .write(let batch) = queue.next() else {
        Issue.record("nothing to write")
        return
      }
      #expect(batch.count == 2)
      queue.complete(batch, with: nil)
      submit()
      submit()
      #expect(queue.pendingCount == 10)
    }
    #expect(recorder.all == Array(0..<100))
  }

  @Test("Groups with writes are counted: with their time, or as failed")
  func figures() {
    let queue = CommitQueue(maximumPendingBytes: 40, mergeBytes: .max)
    func submit(_ writes: Int) {
      var group = queue.makeGroup()
      for write in 0..<writes { group.put(.meta, [UInt8(write)], []) }
      queue.submit(group) { _ in }
    }
    func complete(_ error: StoreError?) {
      guard case .write(let batch) = queue.next() else { return }
      queue.complete(batch, with: error)
    }
    submit(0)
    submit(1)
    // It does not fit behind the other.
    submit(9)
    complete(nil)
    submit(1)
    complete(.unavailable)
    let figures = queue.figures
    #expect(figures.durations.count == 1)
    #expect(figures.failedCount == 2)
  }

  @Test("The count is written little-endian into the header")
  func count() {
    var bytes = [UInt8](repeating: 0xee, count: 12)
    WriteRecord.setCount(0x0102_0304, in: &bytes)
    #expect(bytes == [0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 4, 3, 2, 1])
  }

  @Test("The writes of a group are read back in order")
  func readBack() throws {
    var group = WriteGroup()
    group.put(.meta, [], [])
    group.put(.feedback, [UInt8](repeating: 1, count: 200), [9])
    group.delete(.meta, [5])
    group.deleteOnly(.relay, key: [6, 7].span)
    let bytes = group.bytes
    var position = 12
    let first = try #require(WriteRecord.next(in: bytes.span, at: &position))
    #expect(first.family == .meta && first.key.isEmpty && first.value?.isEmpty == true)
    let second = try #require(WriteRecord.next(in: bytes.span, at: &position))
    #expect(second.family == .feedback && second.key.count == 200)
    #expect(second.value.map { Array(bytes[$0]) } == [9])
    let third = try #require(WriteRecord.next(in: bytes.span, at: &position))
    #expect(third.family == .meta && Array(bytes[third.key]) == [5] && third.value == nil)
    let fourth = try #require(WriteRecord.next(in: bytes.span, at: &position))
    #expect(fourth.family == .relay && fourth.kind == .deleteSingle)
    #expect(Array(bytes[fourth.key]) == [6, 7] && fourth.value == nil)
    #expect(WriteRecord.next(in: bytes.span, at: &position) == nil)
  }
}
