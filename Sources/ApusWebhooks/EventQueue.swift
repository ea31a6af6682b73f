import ApusDirectory
import Glibc

/// Events on disk, numbered, oldest first: files of lines in one folder, each named after the number of its first line.
///
/// Used by one thread at a time.
final class EventQueue {
  private struct Segment {
    var first: UInt64
    var count: UInt64
    var bytes: Int
    var next: UInt64 { first + count }
  }

  /// Lines from one place on, as they are in the files.
  struct Page {
    /// The number of the first line; larger than asked for if older ones were dropped.
    var first: UInt64
    var lines: [[UInt8]] = []
  }

  private let folder: String
  private let limitBytes: Int
  private let segmentBytes: Int
  private var segments: [Segment] = []
  private var file: OpenFile?
  /// Of lines that were dropped because the queue was full.
  private(set) var droppedCount: UInt64 = 0
  private let first: UInt64
  /// Of the last file, as this queue left it.
  private var stamp: FileStamp?

  /// - Parameters:
  ///   - folder: Exists.
  ///   - limitBytes: The most that it may have; beyond it the oldest events are dropped.
  ///   - first: The number of the first event in an empty folder.
  init(folder: String, limitBytes: Int, first: UInt64 = 1) throws {
    self.folder = folder
    self.first = first
    self.limitBytes = limitBytes
    segmentBytes = max(4096, min(1 << 20, limitBytes / 8))
    for name in try Files.names(in: folder) {
      guard let first = Self.number(of: name) else { continue }
      segments.append(try Self.survey("\(folder)/\(name)", first: first))
    }
    segments.sort { $0.first < $1.first }
    stamp = lastStamp
  }

  /// Whether the files are as this queue has left them: another node of a cluster may have written since.
  var isCurrent: Bool {
    guard let names = try? Files.names(in: folder) else { return false }
    return names.compactMap(Self.number).max() == segments.last?.first && stamp == lastStamp
  }

  private var lastStamp: FileStamp? { segments.last.map { FileStamp(path($0.first)) } }

  /// The number of the next event.
  var next: UInt64 { segments.last?.next ?? first }

  /// The number of the oldest event; `next` if there is none.
  var oldest: UInt64 { segments.first { $0.count > 0 }?.first ?? next }

  private func path(_ first: UInt64) -> String { "\(folder)/events-\(first).jsonl" }

  private static func number(of name: String) -> UInt64? {
    guard name.hasPrefix("events-"), name.hasSuffix(".jsonl") else { return nil }
    return UInt64(name.dropFirst(7).dropLast(6))
  }

  /// Counts the lines of a file, and removes what a crash left of a last one.
  private static func survey(_ path: String, first: UInt64) throws -> Segment {
    let content = try Files.read(path)
    let end = content.lastIndex(of: 0x0a).map { $0 + 1 } ?? 0
    if end < content.count { try shorten(path, to: end) }
    return Segment(first: first, count: UInt64(content[..<end].count { $0 == 0x0a }), bytes: end)
  }

  private static func shorten(_ path: String, to count: Int) throws(DirectoryProblem) {
    guard unsafe truncate(path, count) == 0 else {
      throw DirectoryProblem("cannot remove what is unfinished at the end of \(path)")
    }
  }

  // MARK: Writing

  /// Appends events, each the members of a JSON object without the braces, and syncs them. After an error the queue has
  /// none of them.
  func append(_ events: [String]) throws {
    if file == nil || segments.last.map({ $0.bytes >= segmentBytes }) == true { try startSegment() }
    var text = ""
    for (offset, event) in events.enumerated() {
      text += Self.line(event, next + UInt64(offset)) + "\n"
    }
    do { try file?.append(text, syncs: true) } catch {
      // A part of it may be in the file.
      file = nil
      let last = segments[segments.count - 1]
      try Self.shorten(path(last.first), to: last.bytes)
      throw error
    }
    segments[segments.count - 1].count += UInt64(events.count)
    segments[segments.count - 1].bytes += text.utf8.count
    stamp = lastStamp
    try dropSurplus()
  }

  private static func line(_ event: String, _ number: UInt64) -> String {
    "{\"id\":\(number),\(event)}"
  }

  private func startSegment() throws {
    // After a restart the last file is continued.
    if file == nil, let last = segments.last, last.bytes < segmentBytes {
      file = try OpenFile(appendingTo: path(last.first))
      return
    }
    let first = next
    file = try OpenFile(appendingTo: path(first))
    try Files.syncFolder(of: path(first))
    segments.append(Segment(first: first, count: 0, bytes: 0))
  }

  private func dropSurplus() throws {
    while segments.count > 1, segments.reduce(0, { $0 + $1.bytes }) > limitBytes {
      droppedCount += segments[0].count
      try removeFirst()
    }
  }

  /// Removes the files whose events all precede `number`.
  func remove(before number: UInt64) throws {
    while segments.count > 1, segments[0].next <= number { try removeFirst() }
  }

  private func removeFirst() throws {
    try DurableFile.remove(path(segments[0].first))
    segments.removeFirst()
  }

  // MARK: Reading

  /// Whether an event has that number.
  func has(_ event: String, at number: UInt64) throws -> Bool {
    guard number >= oldest, number < next else { return false }
    let page = try page(from: number, limit: 1, limitBytes: 1)
    return page.lines.first.map { String(decoding: $0, as: UTF8.self) } == Self.line(event, number)
  }

  /// Events from `number` on, at most `limit` of them and about `limitBytes`.
  func page(from number: UInt64, limit: Int, limitBytes: Int) throws -> Page {
    let start = max(number, oldest)
    var page = Page(first: start)
    guard let segment = segments.last(where: { $0.first <= start }), start < segment.next else {
      return page
    }
    let content = try Files.read(path(segment.first)).prefix(segment.bytes)
    var (line, offset, bytes) = (segment.first, 0, 0)
    while page.lines.count < limit, bytes < limitBytes,
      let end = content[offset...].firstIndex(of: 0x0a)
    {
      if line >= start {
        page.lines.append(Array(content[offset..<end]))
        bytes += end - offset
      }
      line += 1
      offset = end + 1
    }
    return page
  }
}
