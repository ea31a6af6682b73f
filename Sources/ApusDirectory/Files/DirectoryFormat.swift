import ApusModel

// The version of the data directory's layout, apart from that of the store.

extension DataDirectory {
  /// 1: version 0.1, which wrote no file about it. 2: has the file `format` and the folder of revocation lists.
  package static let formatVersion = 2

  private static let formatPrefix = "apus directory format "
  private var formatFile: String { "\(path)/format" }
  /// The lock file of version 0.1.
  private var oldLockFile: String { "\(path)/directory.conf.lock" }

  func writeFormat() throws {
    try Files.write("\(Self.formatPrefix)\(Self.formatVersion)\n", to: formatFile, isPrivate: false)
  }

  private func format() throws(DirectoryProblem) -> Int {
    let text: String
    do throws(FileError) { text = try Files.readText(formatFile) } catch {
      if error.isMissing { return 1 }
      throw DirectoryProblem("\(error)")
    }
    guard text.hasPrefix(Self.formatPrefix), text.last == "\n",
      let version = Int(text.dropFirst(Self.formatPrefix.count).dropLast()), version > 0
    else {
      throw DirectoryProblem(
        "\(formatFile) must contain `\(Self.formatPrefix)` and a number: restore it from a backup")
    }
    return version
  }

  /// Refuses what a later version of the program has written.
  func requireKnownFormat() throws(DirectoryProblem) {
    let found = try format()
    guard found <= Self.formatVersion else {
      throw DirectoryProblem(
        "the data directory \(path) has format \(found), but this program supports formats up to "
          + "\(Self.formatVersion): use the version of the program that wrote it, or a later one; "
          + "nothing was changed")
    }
  }

  /// Brings a directory of an earlier version up to date; called when a service starts.
  ///
  /// The number is written last: an interrupted migration is repeated.
  ///
  /// - Returns: The format that it had, if that was another one.
  package func migrate() throws -> Int? {
    let found = try format()
    guard found < Self.formatVersion else { return nil }
    try changing {
      if found < 2 {
        // One that existed and is missing may be on a volume that is not mounted.
        if expectedRevocationFolder == nil { try makeRevocationFolder() }
        try DurableFile.remove(oldLockFile)
      }
      try writeFormat()
    }
    return found
  }
}
