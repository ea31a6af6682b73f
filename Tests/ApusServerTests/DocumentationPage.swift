import Foundation

/// The pages of the checkout that these tests were built from.
enum DocumentationPage {
  /// - Parameter name: Without the folder and ".md".
  static func text(_ name: String) throws -> String {
    let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent()
    return try String(
      contentsOf: root.appending(path: "Documentation/\(name).md"), encoding: .utf8)
  }

  /// The cells of the table rows under a heading, without the row of titles.
  static func rows(_ name: String, under heading: String) throws -> [[String]] {
    let lines = try text(name).split(separator: "\n", omittingEmptySubsequences: false)
    guard let start = lines.firstIndex(where: { $0.hasPrefix("#") && $0.hasSuffix(" \(heading)") })
    else { return [] }
    return lines[(start + 1)...].prefix { !$0.hasPrefix("#") }.filter { $0.hasPrefix("| ") }
      .dropFirst(2).map { line in
        line.dropFirst().dropLast().split(separator: "|", omittingEmptySubsequences: false).map {
          $0.trimmingCharacters(in: .whitespaces)
        }
      }
  }
}
