import ApusModel
import ApusTrust

/// The list of a backup's files, `backup.manifest`: written last, so a backup without it is incomplete.
///
/// ```
/// apus backup format 1
/// made 1795753000
/// program 0.2.0
/// folder crls
/// file 631 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 authority/devices.crt
/// files 1 631
/// ```
///
/// Each `file` has its bytes, its SHA-256 and its path below `data/`. The last line has the number of files and their
/// bytes. Folders are listed because an empty one may matter.
package struct BackupManifest: Sendable, Equatable {
  package struct Entry: Sendable, Equatable {
    var path: String
    var byteCount: Int
    var digest: SHA256Digest
  }

  static let formatVersion = 1
  private static let formatPrefix = "apus backup format "

  /// Unix seconds.
  package var madeSeconds: Int64
  /// The version of the program that made it.
  package var program: String
  package internal(set) var entries: [Entry]
  var folders: [String]

  package var fileCount: Int { entries.count }
  package var byteCount: Int { entries.reduce(0) { $0 + $1.byteCount } }

  var text: String {
    let head =
      "\(Self.formatPrefix)\(Self.formatVersion)\nmade \(madeSeconds)\nprogram \(program)\n"
    let files = entries.map { "file \($0.byteCount) \($0.digest.hex) \($0.path)\n" }.joined()
    return head + folders.map { "folder \($0)\n" }.joined() + files
      + "files \(entries.count) \(byteCount)\n"
  }

  init(madeSeconds: Int64, program: String, entries: [Entry], folders: [String]) {
    (self.madeSeconds, self.program) = (madeSeconds, program)
    (self.entries, self.folders) = (entries, folders)
  }

  init(text: String) throws(DirectoryProblem) {
    var lines = text.split(separator: "\n", omittingEmptySubsequences: false)[...]
    guard let first = lines.popFirst(), first.hasPrefix(Self.formatPrefix),
      let version = Int(first.dropFirst(Self.formatPrefix.count))
    else { throw DirectoryProblem("its first line is not `\(Self.formatPrefix)` and a number") }
    guard version == Self.formatVersion else {
      throw DirectoryProblem(
        "it has format \(version), but this program reads format \(Self.formatVersion): use the "
          + "version of the program that made it, or a later one")
    }
    guard text.last == "\n", lines.popLast() != nil,
      let made = lines.popFirst().flatMap({ Self.value("made", $0) }).flatMap({ Int64($0) }),
      let program = lines.popFirst().flatMap({ Self.value("program", $0) }),
      let total = lines.popLast().flatMap({ Self.value("files", $0) })
    else { throw DirectoryProblem("it is incomplete") }
    self.init(madeSeconds: made, program: String(program), entries: [], folders: [])
    for line in lines {
      if let folder = Self.value("folder", line), Self.isBelow(folder) {
        folders.append(String(folder))
        continue
      }
      guard let entry = Entry(line) else {
        throw DirectoryProblem("the line `\(line)` is malformed")
      }
      entries.append(entry)
    }
    guard total == "\(entries.count) \(byteCount)" else {
      throw DirectoryProblem("it is incomplete: its last line counts other files than it lists")
    }
  }

  /// Whether a path stays below the folder from which it leads.
  fileprivate static func isBelow(_ path: Substring) -> Bool {
    let parts = path.split(separator: "/", omittingEmptySubsequences: false)
    return !parts.contains { $0.isEmpty || $0 == "." || $0 == ".." }
  }

  private static func value(_ key: String, _ line: Substring) -> Substring? {
    line.hasPrefix("\(key) ") ? line.dropFirst(key.utf8.count + 1) : nil
  }
}

extension BackupManifest.Entry {
  fileprivate init?(_ line: Substring) {
    let words = line.split(separator: " ", maxSplits: 3, omittingEmptySubsequences: false)
    guard words.count == 4, words[0] == "file", let bytes = Int(words[1]), bytes >= 0,
      let digest = SHA256Digest(hex: String(words[2])), BackupManifest.isBelow(words[3])
    else { return nil }
    self.init(path: String(words[3]), byteCount: bytes, digest: digest)
  }
}
