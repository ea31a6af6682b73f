import Glibc

/// What was there before the engine was asked to open a database, so that what it leaves behind where it fails can go.
///
/// Each opening writes what is in the logs into new tables, and then a MANIFEST that names them. On a disk without
/// room it may get as far as that and no further. The engine removes such files with the next opening that succeeds:
/// until then each attempt would take as much room as the logs have, also what an operator has just made.
struct OpeningAttempt {
  private let directory: StoreDirectory
  private let names: Set<String>
  private let pointer: String

  /// Nil where there is no database yet, or the directory cannot be read.
  init?(_ directory: StoreDirectory) {
    guard let names = try? directory.list(),
      let pointer = try? directory.read(StoreDirectory.engineFile)
    else { return nil }
    self.directory = directory
    self.names = Set(names)
    self.pointer = pointer
  }

  /// Removes what the attempt made. Nothing, where the engine's pointer leads to its MANIFEST already.
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
      || name.hasPrefix("OPTIONS-")
  }
}
