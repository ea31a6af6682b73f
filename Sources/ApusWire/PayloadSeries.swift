internal import ApusModel

/// Scans payloads that are contiguous in one input and mostly begin alike, such as those of a campaign, written from a
/// template.
///
/// The common prefix with the previous payload is only compared, which costs a tenth of scanning it. Scanning begins
/// after the last comma in that prefix. So each byte was scanned, or equals one that was.
///
/// Noncopyable, because a nonmutating method would be called on a copy of all marks.
package struct PayloadSeries: ~Copyable, ~Escapable {
  private let input: Span<UInt8>
  /// The range of the last payload.
  private var last = 0..<0
  /// The scanner's state after the first commas of the last payload.
  private var marks = InlineArray<6, PayloadScanner>(repeating: PayloadScanner())
  private var markCount = 0

  @_lifetime(copy input)
  package init(_ input: Span<UInt8>) { self.input = input }

  /// Scans the payload at `place` of the input. Result and fault are those of `PayloadScan.init`, with offsets in the
  /// payload.
  package mutating func scan(_ place: Range<Int>) throws(JSONFault) -> PayloadScan {
    let bytes = input.extracting(place)
    var scanner = resume(input.extracting(last).commonPrefixCount(with: bytes))
    last = place
    if markCount == 0 { try scanner.begin(bytes) }
    reading: while true {
      switch try scanner.step(bytes) {
      case .insideContainer: continue
      case .end: break reading
      case .behindComma:
        guard markCount < marks.count else { continue }
        marks[markCount] = scanner
        markCount += 1
      }
    }
    try scanner.end(bytes)
    return scanner.found
  }

  /// The scanner's state after the last comma within the first `count` bytes; a new scanner if there is none.
  private mutating func resume(_ count: Int) -> PayloadScanner {
    while markCount > 0, marks[markCount - 1].offset > count { markCount -= 1 }
    return markCount > 0 ? marks[markCount - 1] : PayloadScanner()
  }
}
