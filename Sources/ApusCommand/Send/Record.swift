package import ApusWire

/// One row of a list of recipients.
package struct Record: Sendable, Equatable {
  /// Counted from 1, without the header of a table and without empty lines. Identifies the row in the results.
  package var number: Int
  /// The bytes in the list, to detect a changed list later.
  package var bytes: [UInt8]
  package var fields: Fields

  package enum Fields: Sendable, Equatable {
    case good([String: JSONValue])
    /// What is wrong with the row, worded to follow the row in a sentence.
    case bad(String)
  }

  package init(number: Int, bytes: [UInt8], fields: Fields) {
    self.number = number
    self.bytes = bytes
    self.fields = fields
  }
}

/// The format of a list of recipients.
package enum RecordFormat: String, Sendable, Hashable, CaseIterable {
  /// A device token on each line.
  case tokens
  /// A table with column names in its first line. RFC 4180.
  case csv
  /// A JSON object on each line.
  case jsonl

  /// Guesses the format from a first line.
  init(firstLine: some Sequence<UInt8>) {
    let text = String(decoding: Array(firstLine), as: UTF8.self)
    if text.first == "{" {
      self = .jsonl
    } else {
      self = text.allSatisfy(\.isHexDigit) ? .tokens : .csv
    }
  }
}

/// The list cannot be read at all.
package struct RecordProblem: Error, Sendable, Hashable, CustomStringConvertible {
  package var description: String
}

/// Reads a list of recipients in chunks, as they arrive from a file or a pipe.
package struct RecordReader: Sendable {
  /// Maximum bytes of one row: a payload with all its escapes, and room for more.
  package static let rowBytes = 65_536

  /// Nil until the first line was read, unless it was given.
  package private(set) var format: RecordFormat?
  private var bytes: [UInt8] = []
  /// Everything before this index has been read.
  private var start = 0
  /// Bytes of the list before `bytes`.
  private var droppedBytes: Int64 = 0
  /// There is no end of a row between `start` and this index.
  private var scanned = 0
  private var isInQuotes = false
  private var isAtEnd = false
  private var count = 0
  private var columns: [String]?

  package init(format: RecordFormat? = nil) { self.format = format }

  /// Bytes of the list up to the end of the last row that was read.
  package var readBytes: Int64 { droppedBytes + Int64(start) }

  /// Appends the next chunk; an empty one is the end.
  package mutating func append(_ piece: some Collection<UInt8>) {
    if start > 0 {
      bytes.removeFirst(start)
      droppedBytes += Int64(start)
      scanned -= start
      start = 0
    }
    if piece.isEmpty { isAtEnd = true } else { bytes.append(contentsOf: piece) }
  }

  /// The next row; nil if more bytes are needed, or at the end.
  package mutating func next() throws(RecordProblem) -> Record? {
    while var row = try nextRow() {
      if count == 0, columns == nil, row.starts(with: [0xef, 0xbb, 0xbf]) {
        row = row.dropFirst(3)
      }
      guard row.contains(where: { $0 != 0x20 && $0 != 0x09 }) else { continue }
      let format = self.format ?? RecordFormat(firstLine: row)
      self.format = format
      if format == .csv, columns == nil {
        try readHeader(row)
        continue
      }
      count += 1
      return Record(number: count, bytes: Array(row), fields: fields(row, format))
    }
    return nil
  }

  /// Up to the next line end, without it. In a table, a line end inside quotation marks does not count.
  private mutating func nextRow() throws(RecordProblem) -> ArraySlice<UInt8>? {
    while scanned < bytes.count {
      let byte = bytes[scanned]
      scanned += 1
      // Before the format is known, only the column names of a table can be quoted.
      if byte == 0x22, format == .csv || format == nil && bytes[start] != 0x7b {
        isInQuotes.toggle()
      } else if byte == 0x0a, !isInQuotes {
        defer { start = scanned }
        return Self.withoutReturn(bytes[start..<scanned - 1])
      }
      guard scanned - start <= Self.rowBytes else {
        throw RecordProblem(
          description: "row \(count + 1) has more than \(Self.rowBytes) bytes"
            + (isInQuotes ? ": is a closing quotation mark missing?" : ""))
      }
    }
    guard isAtEnd, start < bytes.count else { return nil }
    defer { start = bytes.count }
    return Self.withoutReturn(bytes[start...])
  }

  private static func withoutReturn(_ line: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
    line.last == 0x0d ? line.dropLast() : line
  }

  private mutating func readHeader(_ row: ArraySlice<UInt8>) throws(RecordProblem) {
    guard let names = CSVRow.cells(row)?.map({ String($0.trimmed) }) else {
      throw RecordProblem(
        description: "the first line is not a row of a table: a closing quotation mark is missing")
    }
    guard names.contains("token") || names.contains("channel") else {
      throw RecordProblem(
        description: "the first line must name the columns, one of them token or channel; it has "
          + names.joined(separator: ", "))
    }
    guard Set(names).count == names.count else {
      throw RecordProblem(description: "the first line names a column twice")
    }
    columns = names
  }

  private func fields(_ row: ArraySlice<UInt8>, _ format: RecordFormat) -> Record.Fields {
    switch format {
    case .tokens:
      return .good(["token": .string(String(String(decoding: row, as: UTF8.self).trimmed))])
    case .jsonl:
      guard let object = JSONValue(text: String(decoding: row, as: UTF8.self))?.object else {
        return .bad("is not a JSON object")
      }
      return .good(
        Dictionary(object.members.map { ($0.key, $0.value) }, uniquingKeysWith: { $1 }))
    case .csv:
      guard let cells = CSVRow.cells(row), let columns else {
        return .bad("has text after a closing quotation mark")
      }
      guard cells.count == columns.count else {
        return .bad("has \(cells.count) cells, but the first line has \(columns.count)")
      }
      return .good(
        Dictionary(uniqueKeysWithValues: zip(columns, cells.map(JSONValue.string))))
    }
  }
}

/// A row of a table. RFC 4180, section 2.
enum CSVRow {
  /// The cells, without their quotation marks; nil if those do not match.
  static func cells(_ row: ArraySlice<UInt8>) -> [String]? {
    var cells: [String] = []
    var index = row.startIndex
    repeat {
      if index < row.endIndex, row[index] == 0x22 {
        guard let cell = quoted(row, &index) else { return nil }
        cells.append(cell)
      } else {
        let end = row[index...].firstIndex(of: 0x2c) ?? row.endIndex
        cells.append(String(decoding: row[index..<end], as: UTF8.self))
        index = end
      }
      guard index < row.endIndex else { return cells }
      guard row[index] == 0x2c else { return nil }
      index += 1
    } while true
  }

  private static func quoted(_ row: ArraySlice<UInt8>, _ index: inout Int) -> String? {
    var text: [UInt8] = []
    index += 1
    while index < row.endIndex {
      let byte = row[index]
      index += 1
      guard byte == 0x22 else {
        text.append(byte)
        continue
      }
      guard index < row.endIndex, row[index] == 0x22 else {
        return String(decoding: text, as: UTF8.self)
      }
      text.append(0x22)
      index += 1
    }
    return nil
  }
}
