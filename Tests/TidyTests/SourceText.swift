import Foundation

/// A text file of the repository, with its code separated from comments and string literals.
struct SourceText {
  /// A string literal, or the part of one between two interpolations.
  struct Literal: Equatable {
    var line: Int
    var text: String
  }

  /// The path from the root of the repository, with `/` as separator.
  let path: String
  /// The lines of the file.
  let lines: [Substring]
  /// The same lines without comments and the contents of string literals. Empty for a file that is not Swift in
  /// `Sources`.
  let code: [Substring]
  let literals: [Literal]

  init(path: String, text: String) {
    self.path = path
    lines = Self.lines(of: text)
    // Only the rules for sources need more than lines.
    if path.hasPrefix("Sources/") && path.hasSuffix(".swift") {
      var scanner = SwiftScanner(text)
      scanner.scan()
      code = Self.lines(of: scanner.code)
      literals = scanner.literals
    } else {
      code = []
      literals = []
    }
  }

  /// `Sources/<target>/…`: the target; nil for a file elsewhere.
  var target: String? {
    let parts = path.split(separator: "/")
    return parts.count >= 3 && parts[0] == "Sources" ? String(parts[1]) : nil
  }

  /// The lines without their terminators. A line feed at the very end begins no further line.
  private static func lines(of text: String) -> [Substring] {
    var lines = text.split(separator: "\n", omittingEmptySubsequences: false)
    if lines.last?.isEmpty == true { lines.removeLast() }
    return lines
  }
}

/// Splits Swift into code, comments and string literals, as far as possible without a grammar.
///
/// It supports nested block comments, escapes, raw and multi-line strings and interpolations, which contain code
/// again. It does not support regular expression literals, which the sources do not use. It works on bytes, because
/// every significant character is ASCII, and a debug build compares bytes many times faster than characters.
struct SwiftScanner {
  private let bytes: [UInt8]
  private var position = 0
  private var line = 1
  private var codeBytes: [UInt8] = []
  private(set) var literals: [SourceText.Literal] = []

  private static let lineFeed = UInt8(ascii: "\n")
  private static let quote = UInt8(ascii: "\"")
  private static let pound = UInt8(ascii: "#")
  private static let backslash = UInt8(ascii: "\\")
  private static let slash = UInt8(ascii: "/")
  private static let star = UInt8(ascii: "*")
  private static let open = UInt8(ascii: "(")
  private static let close = UInt8(ascii: ")")

  init(_ text: String) { bytes = Array(text.utf8) }

  /// The text without comments and the contents of string literals.
  var code: String { String(decoding: codeBytes, as: UTF8.self) }

  mutating func scan() { scanCode(isInterpolation: false) }

  private func byte(_ offset: Int = 0) -> UInt8? {
    position + offset < bytes.count ? bytes[position + offset] : nil
  }

  /// Consumes one byte, which is kept in the code if `isCode` is true. Line ends are always kept.
  @discardableResult
  private mutating func take(isCode: Bool) -> UInt8 {
    let byte = bytes[position]
    position += 1
    if byte == Self.lineFeed { line += 1 }
    if isCode || byte == Self.lineFeed { codeBytes.append(byte) }
    return byte
  }

  private mutating func skip(_ count: Int) {
    for _ in 0..<count { take(isCode: false) }
  }

  /// Reads code to the end, or to the parenthesis that closes its interpolation.
  private mutating func scanCode(isInterpolation: Bool) {
    var depth = 0
    while let next = byte() {
      switch next {
      case Self.slash where byte(1) == Self.slash:
        while let next = byte(), next != Self.lineFeed { skip(1) }
      case Self.slash where byte(1) == Self.star:
        scanBlockComment()
      case Self.quote:
        scanString(pounds: 0)
      case Self.pound where byte(poundCount()) == Self.quote:
        scanString(pounds: poundCount())
      case Self.close where isInterpolation && depth == 0:
        return
      default:
        depth += next == Self.open ? 1 : next == Self.close ? -1 : 0
        take(isCode: true)
      }
    }
  }

  private mutating func scanBlockComment() {
    var depth = 0
    repeat {
      if byte() == Self.slash && byte(1) == Self.star {
        depth += 1
        skip(2)
      } else if byte() == Self.star && byte(1) == Self.slash {
        depth -= 1
        skip(2)
      } else {
        skip(1)
      }
    } while depth > 0 && position < bytes.count
  }

  /// The number of `#` from `offset` on.
  private func poundCount(at offset: Int = 0) -> Int {
    var count = 0
    while byte(offset + count) == Self.pound { count += 1 }
    return count
  }

  private func quoteCount() -> Int {
    byte() == Self.quote && byte(1) == Self.quote && byte(2) == Self.quote ? 3 : 1
  }

  private mutating func scanString(pounds: Int) {
    skip(pounds)
    let quotes = quoteCount()
    skip(quotes)
    // A placeholder separates the words on both sides of the literal.
    codeBytes.append(Self.quote)
    var literal: [UInt8] = []
    var start = line
    func keep(_ literal: [UInt8], _ line: Int, in literals: inout [SourceText.Literal]) {
      if literal.isEmpty { return }
      literals.append(.init(line: line, text: String(decoding: literal, as: UTF8.self)))
    }
    while let next = byte() {
      if next == Self.quote && quoteCount() >= quotes && poundCount(at: quotes) >= pounds {
        skip(quotes + pounds)
        break
      }
      let escapes = next == Self.backslash && poundCount(at: 1) >= pounds
      if escapes && byte(1 + pounds) == Self.open {
        keep(literal, start, in: &literals)
        skip(1 + pounds)
        take(isCode: true)
        scanCode(isInterpolation: true)
        if position < bytes.count { take(isCode: true) }
        literal = []
        start = line
      } else if escapes {
        // An escaped character may be a quotation mark. No rule depends on it, except that `\n` must not extend a
        // word.
        skip(min(2 + pounds, bytes.count - position))
        literal.append(UInt8(ascii: " "))
      } else {
        literal.append(take(isCode: false))
      }
    }
    keep(literal, start, in: &literals)
  }
}
