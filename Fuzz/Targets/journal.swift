import ApusModel

@testable import ApusStore

// The journal of a worker's ledger lines. If the first byte is even, the rest is the file, as a crash or a faulty disk
// left it. If it is odd, the rest are steps: each a byte that selects the kind, and a length or a position.
//
// For any file, reads stay within it, nothing follows its own end, and a journal can continue with it. After any steps
// it has exactly the lines that the store lacks; with a changed byte, a prefix of them.

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  let bytes = input(start, count)
  guard let first = bytes.first else { return 0 }
  let rest = Array(bytes[1...])
  if first & 1 == 0 {
    readAny(rest, behind: UInt64(first) << 3)
  } else {
    var steps = Steps(ringBytes: 256 + Int(first & 0x7e) * 32)
    steps.run(rest)
  }
  return 0
}

private func readAny(_ file: [UInt8], behind durable: UInt64) {
  let memory = JournalMemory(byteCount: max(JournalFormat.headerByteCount + 64, file.count))
  memory.write(file.span, at: 0)
  if let content = JournalContent(file.span, behind: durable) {
    let used = content.end - content.start
    precondition(used <= UInt64(file.count), "more bytes than the file has")
    precondition(
      content.chunks.reduce(0) { $0 + $1.count } <= Int(used), "more bytes than its records have")
    precondition(
      JournalContent(file.span, behind: content.end)?.chunks.isEmpty == true, "lines behind its end"
    )
    _ = content.lines
  }
  let journal = LedgerJournal(memory, worker: 1, behind: durable)
  let kept = chunks(in: memory, behind: durable)
  let line = [UInt8](repeating: 7, count: 8)
  journal.append(line.span, beginsChunk: true)
  let added = journal.takeOverflow() ? [] : [line]
  precondition(chunks(in: memory, behind: durable) == kept + added, "the journal does not continue")
}

private func chunks(in memory: JournalMemory, behind durable: UInt64) -> [[UInt8]] {
  let bytes = memory.bytes.copied()
  guard let content = JournalContent(bytes.span, behind: durable) else {
    preconditionFailure("a written journal cannot be read")
  }
  return content.chunks
}

private struct Steps {
  private let memory: JournalMemory
  private var journal: LedgerJournal
  private var durable: UInt64 = 0
  private var sealed: UInt64 = 0
  private var gathering: [[UInt8]] = []
  private var underWay: [[UInt8]] = []
  private var number: UInt8 = 0

  init(ringBytes: Int) {
    memory = JournalMemory(byteCount: JournalFormat.headerByteCount + ringBytes)
    journal = LedgerJournal(memory, worker: 1, behind: 0)
  }

  mutating func run(_ steps: [UInt8]) {
    var place = 0
    while place + 2 <= steps.count {
      let (kind, argument) = (steps[place], Int(steps[place + 1]))
      place += 2
      switch kind % 8 {
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
      case 2:
        journal = LedgerJournal(memory, worker: 1, behind: durable)
        sealed = durable
        gathering = underWay + gathering
        underWay = []
      case 3: checkChanged(at: argument << 3 | Int(kind >> 3))
      case 4: add(argument, beginsChunk: false)
      default: add(argument, beginsChunk: true)
      }
      precondition(chunks(in: memory, behind: durable) == underWay + gathering, "the lines differ")
    }
  }

  private mutating func add(_ count: Int, beginsChunk: Bool) {
    // Lines extend the gathering chunk; a group takes whole chunks.
    let beginsChunk = beginsChunk || gathering.isEmpty
    number &+= 1
    let lines = [UInt8](repeating: number, count: count)
    let before = journal.end
    journal.append(lines.span, beginsChunk: beginsChunk)
    let isCutOff = journal.takeOverflow() || journal.end == before
    guard !isCutOff else { return }
    if beginsChunk { gathering.append(lines) } else { gathering[gathering.count - 1] += lines }
  }

  /// Changes a byte of the ring.
  private func checkChanged(at place: Int) {
    var bytes = memory.bytes.copied()
    let index =
      JournalFormat.headerByteCount + place % (bytes.count - JournalFormat.headerByteCount)
    bytes[index] ^= 0xff
    guard let content = JournalContent(bytes.span, behind: durable) else {
      preconditionFailure("the ring is no part of the header")
    }
    let whole = (underWay + gathering).flatMap(\.self)
    precondition(
      whole.starts(with: content.chunks.flatMap(\.self)), "lines that were never written")
  }
}
