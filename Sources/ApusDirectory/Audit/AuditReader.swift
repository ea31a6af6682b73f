package import ApusWire
import Glibc

/// Reads the audit log from its end.
package struct AuditReader {
  /// A line, and its offset in the file, from which the next page can start.
  package struct Line {
    var offset: Int64
    package var json: JSONValue
  }

  /// The newest matching lines, newest first, and the offset of the next page; nil at the beginning of the file.
  package struct Page {
    package var lines: [Line] = []
    package var next: Int64?
  }

  private let path: String

  package init(path: String) { self.path = path }

  /// Bytes read at a time, and the maximum length of a line.
  private static let blockBytes: Int64 = 65_536
  /// The maximum number of blocks read for one page: a page with few matches ends there, as if it were full.
  private static let largestBlockCount = 256

  /// - Parameter before: Only lines that begin before that offset; nil starts at the end of the file.
  package func page(
    before: Int64?, limit: Int, matching: (JSONValue) -> Bool
  ) throws(FileError) -> Page {
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else {
      if errno == ENOENT { return Page() }
      throw FileError(path: path, operation: "read", code: errno)
    }
    defer { Glibc.close(descriptor) }
    let size = Int64(lseek(descriptor, 0, Int32(SEEK_END)))
    var end = min(max(0, before ?? size), size)
    var page = Page()
    for _ in 0..<Self.largestBlockCount {
      guard end > 0 else { return page }
      let start = max(0, end - Self.blockBytes)
      let block = try read(descriptor, start..<end)
      // Every block but the file's first begins in the middle of a line; a block without a line end is skipped.
      let first = start == 0 ? 0 : (block.firstIndex(of: 0x0a).map { $0 + 1 } ?? block.count)
      for line in Self.lines(of: block[first...]).reversed() {
        guard let json = Self.parse(block[line]), matching(json) else { continue }
        page.lines.append(Line(offset: start + Int64(line.lowerBound), json: json))
        if page.lines.count == limit {
          page.next = start + Int64(line.lowerBound)
          if page.next == 0 { page.next = nil }
          return page
        }
      }
      end = start == 0 ? 0 : (first < block.count ? start + Int64(first) : start)
    }
    page.next = end
    return page
  }

  private func read(_ descriptor: Int32, _ range: Range<Int64>) throws(FileError) -> [UInt8] {
    var block = [UInt8](repeating: 0, count: Int(range.upperBound - range.lowerBound))
    let count = unsafe block.withUnsafeMutableBytes {
      unsafe pread(descriptor, $0.baseAddress, $0.count, Int(range.lowerBound))
    }
    guard count >= 0 else { throw FileError(path: path, operation: "read", code: errno) }
    return Array(block[..<count])
  }

  private static func lines(of block: ArraySlice<UInt8>) -> [Range<Int>] {
    block.split(separator: 0x0a).map { $0.startIndex..<$0.endIndex }
  }

  private static func parse(_ line: ArraySlice<UInt8>) -> JSONValue? {
    let bytes = Array(line)
    return try? JSONValue(parsing: bytes.span)
  }
}
