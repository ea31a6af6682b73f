import ApusDirectory
import ApusTesting
import DiskFaults
import Foundation
import Testing

@testable import ApusWebhooks

@Suite("The queue of events")
struct EventQueueTests {
  private let temporary = TemporaryDirectory()

  private func queue(limitBytes: Int = 1 << 20) throws -> EventQueue {
    try EventQueue(folder: temporary.path, limitBytes: limitBytes)
  }

  private func lines(_ queue: EventQueue, from number: UInt64, limit: Int = 1000) throws -> [String]
  {
    try queue.page(from: number, limit: limit, limitBytes: 1 << 20).lines
      .map { String(decoding: $0, as: UTF8.self) }
  }

  private var files: [String] {
    get throws { try FileManager.default.contentsOfDirectory(atPath: temporary.path).sorted() }
  }

  @Test("Events are numbered from 1 on, and read from any place")
  func order() throws {
    let queue = try queue()
    #expect(queue.next == 1 && queue.oldest == 1)
    #expect(try lines(queue, from: 1) == [])
    try queue.append([#""a":1"#, #""a":2"#])
    try queue.append([#""a":3"#])
    #expect(queue.next == 4)
    #expect(
      try lines(queue, from: 1) == [#"{"id":1,"a":1}"#, #"{"id":2,"a":2}"#, #"{"id":3,"a":3}"#])
    #expect(try lines(queue, from: 2, limit: 1) == [#"{"id":2,"a":2}"#])
    #expect(try lines(queue, from: 3) == [#"{"id":3,"a":3}"#])
    #expect(try lines(queue, from: 4) == [])
    #expect(try mode("events-1.jsonl") == 0o600)
  }

  private func mode(_ name: String) throws -> Int? {
    try FileManager.default.attributesOfItem(atPath: "\(temporary.path)/\(name)")[
      .posixPermissions] as? Int
  }

  @Test("A queue knows whether another one has written into its files")
  func current() throws {
    let (one, other) = (try queue(), try queue())
    #expect(one.isCurrent)
    try one.append([#""a":1"#])
    #expect(one.isCurrent && !other.isCurrent)
    let third = try queue()
    #expect(third.isCurrent)
    try third.append([#""a":2"#])
    #expect(third.isCurrent && !one.isCurrent)
  }

  @Test("After a restart the numbers continue, without the line that a crash cut off")
  func restart() throws {
    try queue().append([#""a":1"#, #""a":2"#])
    let file = URL(filePath: "\(temporary.path)/events-1.jsonl")
    try (Data(contentsOf: file) + Data(#"{"id":3,"a"#.utf8)).write(to: file)
    let again = try queue()
    #expect(again.next == 3)
    try again.append([#""a":"new""#])
    #expect(try lines(again, from: 2) == [#"{"id":2,"a":2}"#, #"{"id":3,"a":"new"}"#])
    #expect(try files == ["events-1.jsonl"])
  }

  @Test(
    "What a failed write left in a file is not an event",
    arguments: [DiskFault.Kind.syncsFail, .writesFail])
  func failedWrite(kind: DiskFault.Kind) throws {
    let queue = try queue()
    try queue.append([#""a":1"#])
    let fault = DiskFault(kind, below: temporary.path)
    #expect(throws: FileError.self) { try queue.append([#""a":"lost""#]) }
    fault.end()
    #expect(queue.next == 2)
    #expect(try lines(queue, from: 1) == [#"{"id":1,"a":1}"#])
    try queue.append([#""a":2"#])
    for queue in [queue, try self.queue()] {
      #expect(try lines(queue, from: 1) == [#"{"id":1,"a":1}"#, #"{"id":2,"a":2}"#])
    }
  }

  @Test("A full queue drops its oldest events, and counts them")
  func bounded() throws {
    let queue = try queue(limitBytes: 32_768)
    let text = #""a":"\#(String(repeating: "x", count: 1000))""#
    for _ in 0..<100 { try queue.append([text]) }
    let bytes = try files.reduce(0) { sum, name in
      sum + (try Data(contentsOf: URL(filePath: "\(temporary.path)/\(name)")).count)
    }
    // One file more than the limit, which is being written.
    #expect(bytes <= 32_768 + 4096 + 1100)
    #expect(queue.next == 101)
    #expect(queue.oldest > 60 && queue.oldest == queue.droppedCount + 1)
    let page = try queue.page(from: 5, limit: 10, limitBytes: 1 << 20)
    #expect(page.first == queue.oldest)
    #expect(page.lines.first?.starts(with: Array(#"{"id":\#(queue.oldest),"#.utf8)) == true)
    // The same after a restart.
    let again = try self.queue(limitBytes: 32_768)
    #expect(again.oldest == queue.oldest && again.next == 101)
  }

  @Test("Every event is in exactly one of successive pages, across files")
  func pages() throws {
    let queue = try queue(limitBytes: 1 << 20)
    let text = #""a":"\#(String(repeating: "x", count: 30_000))""#
    for _ in 0..<30 { try queue.append([text]) }
    #expect(try files.count > 2)
    var number: UInt64 = 1
    while number < queue.next {
      let page = try queue.page(from: number, limit: 4, limitBytes: 70_000)
      #expect(page.first == number && 1...4 ~= page.lines.count)
      for (offset, line) in page.lines.enumerated() {
        #expect(line.starts(with: Array(#"{"id":\#(number + UInt64(offset)),"#.utf8)))
      }
      number += UInt64(page.lines.count)
    }
    #expect(number == 31)
  }

  @Test("Files are removed once all of their events were delivered")
  func removed() throws {
    let queue = try queue(limitBytes: 32_768)
    let text = #""a":"\#(String(repeating: "x", count: 1000))""#
    for _ in 0..<20 { try queue.append([text]) }
    let count = try files.count
    try queue.remove(before: 1)
    #expect(try files.count == count)
    try queue.remove(before: queue.next)
    // The last file has the next number.
    #expect(try files.count == 1)
    #expect(queue.next == 21 && queue.droppedCount == 0)
  }
}
