import Foundation

/// The files of the repository that this test was built from.
enum Repository {
  static let root = URL(fileURLWithPath: #filePath)
    .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

  /// Every file that is committed, or would be by `git add --all`, in the order of paths.
  static let paths = (gitPaths() ?? walkedPaths()).sorted()

  /// Those of them that are text.
  static let files: [SourceText] = paths.compactMap { path in
    // A file that is not UTF-8 is a binary fixture, and a listed file that does not exist was just deleted.
    guard let text = try? String(contentsOf: root.appending(path: path), encoding: .utf8) else {
      return nil
    }
    return SourceText(path: path, text: text)
  }

  /// The Swift and C files in `Sources`.
  static let sources = files.filter { file in
    file.path.hasPrefix("Sources/") && [".swift", ".c", ".h"].contains { file.path.hasSuffix($0) }
  }

  /// The folders of `Sources`: one for each target.
  static let targets = Set(sources.compactMap(\.target))

  /// Whether there is a file or folder with that path, binary files included.
  static func has(_ path: String) -> Bool {
    FileManager.default.fileExists(atPath: root.appending(path: path).path)
  }

  private static func gitPaths() -> [String]? {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = [
      "git", "-C", root.path, "ls-files", "-z", "--cached", "--others", "--exclude-standard",
    ]
    let output = Pipe()
    process.standardOutput = output
    process.standardError = FileHandle.nullDevice
    process.standardInput = FileHandle.nullDevice
    guard (try? process.run()) != nil else { return nil }
    let data = output.fileHandleForReading.readDataToEndOfFile()
    process.waitUntilExit()
    guard process.terminationStatus == 0 else { return nil }
    return String(decoding: data, as: UTF8.self).split(separator: "\0").map(String.init)
  }

  /// The files without git, as in an unpacked source archive.
  private static func walkedPaths() -> [String] {
    let generated: Set = [".build", ".venv", ".apus", ".git"]
    guard let walk = FileManager.default.enumerator(atPath: root.path) else { return [] }
    var paths: [String] = []
    while let path = walk.nextObject() as? String {
      if generated.contains(path) { walk.skipDescendants() } else { paths.append(path) }
    }
    return paths
  }
}
