internal import ApusModel

/// Scans payloads that lie in one piece of input and mostly begin alike: those of a campaign, written from a template.
///
/// What a payload has in common with the one before is compared with it, which costs a tenth of reading it. Reading
/// begins behind the last comma that both have. So each byte was read, or is equal to one that was.
///
/// Not copyable: a method that does not mutate would be called on a copy of all marks.
package struct PayloadSeries: ~Copyable, ~Escapable {
  private let input: Span<UInt8>
  /// Where the last payload lies.
  private var last = 0..<0
  /// What the scanner was behind the first commas of the last payload.
  private var marks = InlineArray<6, PayloadScanner>(repeating: PayloadScanner())
  private var markCount = 0

  @_lifetime(copy input)
  package init(_ input: Span<UInt8>) { self.input = input }

  /// Scans the payload that lies at `place` of the input. Result and fault are those of `PayloadScan.init`, with the
  /// offset in the payload.
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

  /// The scanner as it was behind the last comma within the first `count` bytes; a new one where there is none.
  private mutating func resume(_ count: Int) -> PayloadScanner {
    while markCount > 0, marks[markCount - 1].offset > count { markCount -= 1 }
    return markCount > 0 ? marks[markCount - 1] : PayloadScanner()
  }
}
