/// `unsafe` occurs only where C handles are owned, so that a reviewer of memory safety knows where to look.
enum UnsafeRule {
  /// Files of other layers, each with the reason.
  static let exceptions = [
    "Sources/ApusModel/Bytes.swift": "compares bytes with a StaticString, which has no safe view"
  ]

  static func findings(in file: SourceText) -> [Finding] {
    guard let target = file.target, let layer = LayerRule.table[target] else { return [] }
    if layer.mayBeUnsafe || exceptions[file.path] != nil { return [] }
    return file.code.enumerated().flatMap { index, text in
      text.matches(of: #/\bunsafe\b/#).map { _ in
        Finding(
          path: file.path, line: index + 1, problem: "`unsafe` in \(target)",
          remedy: "Read through Span, or move the code to the layer that owns the C handle")
      }
    }
  }
}
