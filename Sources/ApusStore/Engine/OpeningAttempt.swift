import Glibc

/// Records the directory before the engine tries to open a database, so that leftovers of a failed attempt can be
/// removed.
///
/// Each opening writes the content of the logs into new tables, and then a MANIFEST that names them. On a full disk it
/// may get only that far. The engine removes such files with the next successful opening: until then each attempt
/// would take as much room as the logs, including room that an operator has just freed.
struct OpeningAttempt {
  private let directory: StoreDirectory
  private let names: Set<String>
  private let pointer: String

  /// Nil if there is no database yet, or the directory cannot be read.
  init?(_ directory: StoreDirectory) {
    guard let names = try? directory.list(),
      let pointer = try? directory.read(StoreDirectory.engineFile)
    else { return nil }
    self.directory = directory
    self.names = Set(names)
    self.pointer = pointer
  }

  /// Removes the attempt's files; nothing if the engine's pointer already names its MANIFEST.
  func removeLeftovers() {
    guard (try? directory.read(StoreDirectory.engineFile)) == pointer,
      let now = try? directory.list()
    else { return }
    for name in now where !names.contains(name) && isLeftover(name) {
      unsafe _ = unlink("\(directory.path)/\(name)")
    }
  }

  private func isLeftover(_ name: String) -> Bool {
    if name.hasSuffix(".log") {
      var status = stat()
      return unsafe stat("\(directory.path)/\(name)", &status) == 0 && status.st_size == 0
    }
    return name.hasSuffix(".sst") || name.hasSuffix(".dbtmp") || name.hasPrefix("MANIFEST-")
  }
}
