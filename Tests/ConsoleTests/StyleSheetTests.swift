import ApusConsole
import Testing

/// The style sheets of the page. Browsers silently skip what they cannot read.
@Suite("The console's style sheets")
struct StyleSheetTests {
  @Test("Browsers can read each selector and each declaration")
  func readable() {
    let sheets = DevAssets.all.filter { $0.name.hasSuffix(".css") }
    #expect(!sheets.isEmpty)
    for sheet in sheets {
      let text = String(decoding: sheet.bytes, as: UTF8.self)
      #expect(StyleSheet.faults(in: text) == [], "\(sheet.name)")
    }
  }

  @Test(
    "What a browser would skip is found",
    arguments: [
      "a { color: red;\n# text-decoration: none }", "a { letter-spacing:\n  # -.01em }",
      "// red\na { color: red }", "a { color: red; // red\n }", "# red\na { color: red }",
      "a { color red }", "a { color: }", "a { color: #12 }", "a { color: red", "a { color: red } }",
      "a { 1color: red }", "a { color: red: blue }",
    ])
  func unreadable(text: String) {
    #expect(StyleSheet.faults(in: text).count == 1)
  }

  @Test(
    "What browsers can read is no fault",
    arguments: [
      "", "/* # // ; { */ a { color: red }", "a#b:is(c, d) > e { --x: #fff8; font: 1px/2 \"A;B\" }",
      "@media (max-width: 760px) { a { -webkit-line-clamp: 2; } b { margin: 0 } }",
    ])
  func good(text: String) {
    #expect(StyleSheet.faults(in: text) == [])
  }
}

/// The part of the CSS syntax that the console uses.
private enum StyleSheet {
  /// The pieces of a style sheet that a browser would skip.
  static func faults(in text: String) -> [String] {
    let bare = text.replacing(#/\/\*.*?\*\//#.dotMatchesNewlines(), with: " ")
      .replacing(#/"[^"\n]*"/#, with: "\"\"")
    var faults: [String] = []
    var depth = 0
    var piece = ""
    for character in bare {
      guard "{};".contains(character) else {
        piece.append(character)
        continue
      }
      let words = piece.split(whereSeparator: \.isWhitespace).joined(separator: " ")
      piece = ""
      let isGood = character == "{" ? isPrelude(words) : words.isEmpty || isDeclaration(words)
      if !isGood { faults.append(words) }
      if character == "{" { depth += 1 }
      if character == "}" { depth -= 1 }
      if depth < 0 { return faults + ["a closing brace without its opening one"] }
    }
    return depth == 0 && piece.allSatisfy(\.isWhitespace) ? faults : faults + ["an open block"]
  }

  /// A selector, or `@media` and its condition.
  private static func isPrelude(_ text: String) -> Bool {
    text.wholeMatch(of: #/[^#\/]*(?:#[a-z][^#\/]*)*/#) != nil && !text.isEmpty
  }

  private static func isDeclaration(_ text: String) -> Bool {
    let value = #/(?:--|-)?[a-z][-a-z]*: ?(.+)/#
    guard let match = text.wholeMatch(of: value) else { return false }
    return match.1.wholeMatch(of: #/(?:[^#\/:]|#[\da-f]{3,8}\b|\/(?!\/))+/#) != nil
  }
}
