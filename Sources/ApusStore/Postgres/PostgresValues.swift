import ApusModel

/// The parameters of a statement in PostgreSQL's binary format, in memory that is used again.
struct PostgresValues: Sendable {
  private(set) var bytes: [UInt8] = []
  private(set) var ranges: [Range<Int>] = []
  private var arrayStart = 0
  private var arrayCount = 0

  init() {}

  init(_ values: Value...) {
    for value in values { append(value) }
  }

  /// Two arrays: the keys of rows, and their values.
  init(rows: [(key: [UInt8], value: [UInt8])]) {
    appendArray(rows.map(\.key))
    appendArray(rows.map(\.value))
  }

  enum Value {
    case integer(Int64)
    /// A parameter of type `integer`, which has four bytes.
    case shortInteger(Int32)
    case text(String)
    case bytes([UInt8])
    case truth(Bool)
  }

  mutating func removeAll() {
    bytes.removeAll(keepingCapacity: true)
    ranges.removeAll(keepingCapacity: true)
  }

  mutating func append(_ value: Value) {
    let start = bytes.count
    switch value {
    case .integer(let number): bytes.append(bigEndian: number)
    case .shortInteger(let number): bytes.append(bigEndian: number)
    case .text(let text): bytes.append(contentsOf: text.utf8)
    case .bytes(let value): bytes.append(contentsOf: value)
    case .truth(let value): bytes.append(value ? 1 : 0)
    }
    ranges.append(start..<bytes.count)
  }

  mutating func append(_ value: Span<UInt8>) {
    let start = bytes.count
    bytes.append(value)
    ranges.append(start..<bytes.count)
  }

  // MARK: Arrays of bytea

  /// The object id of the type `bytea`.
  private static let bytea: Int32 = 17
  private static let headerByteCount = 20

  /// Begins an array: dimensions (1), whether it has nulls (no), type of the elements, their number, first index (1);
  /// each in 4 bytes.
  mutating func beginArray() {
    arrayStart = bytes.count
    arrayCount = 0
    for number: Int32 in [1, 0, Self.bytea, 0, 1] { bytes.append(bigEndian: number) }
  }

  /// A whole array.
  mutating func appendArray(_ elements: [[UInt8]]) {
    beginArray()
    for element in elements { appendElement(element.span) }
    endArray()
  }

  mutating func appendElement(_ element: Span<UInt8>) {
    bytes.append(bigEndian: Int32(element.count))
    bytes.append(element)
    arrayCount += 1
  }

  mutating func endArray() {
    for index in 0..<4 {
      bytes[arrayStart + 12 + index] = UInt8(
        truncatingIfNeeded: Int32(arrayCount) &>> Int32(24 - 8 * index))
    }
    ranges.append(arrayStart..<bytes.count)
  }
}
