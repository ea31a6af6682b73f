/// References between the folders of ApusServer point down only, so that a reader can understand a folder from itself
/// and those below it. The compiler cannot check that within a target.
enum FolderRule {
  static let target = "ApusServer"

  /// From the bottom to the top: a folder may refer to types of those before it. Files outside of folders are on top.
  static let order = [
    "Interceptor", "Shared", "Connection", "Link", "DeviceMemory", "Device", "Routing", "Provider",
    "Courier", "Feedback", "Interception", "Worker",
  ]

  /// The folder of a file of the target; nil for a file outside of folders.
  static func folder(of file: SourceText) -> String? {
    let parts = file.path.split(separator: "/")
    return parts.count > 3 ? String(parts[2]) : nil
  }

  /// The folders in which types are declared, by their names. Nested types are reached through the outer ones.
  static func declarations(in files: [SourceText]) -> [Substring: String?] {
    let pattern = #/^(?:[@\w() ]+ )?(?:struct|class|enum|protocol|actor|typealias) (?<name>\w+)/#
    var folders: [Substring: String?] = [:]
    for file in files {
      for line in file.code where !line.hasPrefix(" ") {
        if let match = line.firstMatch(of: pattern) { folders[match.name] = folder(of: file) }
      }
    }
    return folders
  }

  static func findings(in all: [SourceText]) -> [Finding] {
    let files = all.filter { $0.target == target && $0.path.hasSuffix(".swift") }
    let declarations = declarations(in: files)
    return files.flatMap { findings(in: $0, declarations) }
  }

  private static func findings(
    in file: SourceText, _ declarations: [Substring: String?]
  ) -> [Finding] {
    guard let own = folder(of: file) else { return [] }
    guard let level = order.firstIndex(of: own) else {
      return [
        Finding(
          path: file.path, line: 1, problem: "the folder \(own) has no place in the order",
          remedy: "Give it one in Tests/TidyTests/FolderRule.swift")
      ]
    }
    return file.code.enumerated().flatMap { index, line in
      line.split { !$0.isLetter && !$0.isNumber && $0 != "_" }.compactMap { word in
        guard let folder = declarations[word], folder != own else { return nil }
        if let folder, let other = order.firstIndex(of: folder), other < level { return nil }
        return Finding(
          path: file.path, line: index + 1,
          problem: "\(own) must not refer to \(word) of \(folder ?? "the top")",
          remedy: "References point down: move the code, or pass what it needs from above")
      }
    }
  }
}
