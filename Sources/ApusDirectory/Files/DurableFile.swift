import Glibc

/// Small files whose appearance is the act itself: one is there whole and for good, or not at all, with the lock of the
/// data directory and without it. Acts of several files, and those that depend on others, need the lock.
package enum DurableFile {
  /// Puts a new file in place, mode 0600; false where there is one of that name, which stays as it is.
  ///
  /// Written beside it and synced, then linked: of two who try, in one process or in two, one succeeds. When this
  /// returns the file survives a loss of power.
  package static func create(_ content: [UInt8], at path: String) throws(FileError) -> Bool {
    let temporary = "\(path).\(getpid())\(leftover)"
    unsafe unlink(temporary)
    try Files.create(content, at: temporary, isPrivate: true)
    defer { unsafe unlink(temporary) }
    guard unsafe link(temporary, path) == 0 else {
      if errno == EEXIST { return false }
      throw FileError(path: path, operation: "create", code: errno)
    }
    FileJournal.note(path)
    try Files.syncFolder(of: path)
    return true
  }

  /// Takes a file away; one that is not there is no fault.
  package static func remove(_ path: String) throws(FileError) {
    guard unsafe unlink(path) == 0 else {
      if errno == ENOENT { return }
      throw FileError(path: path, operation: "remove", code: errno)
    }
    FileJournal.note(path)
    try Files.syncFolder(of: path)
  }

  /// The names in a directory, in no order, without what an interrupted `create` left; none where there is none.
  package static func names(in directory: String) throws(FileError) -> [String] {
    try allNames(in: directory).filter { !$0.contains(leftover) }
  }

  /// Seconds after which what a `create` left is that of one that was interrupted: a whole one takes a sync or two.
  static let leftoverSeconds = 3600

  /// Removes what interrupted calls of `create` left.
  package static func removeLeftovers(in directory: String, nowSeconds: Int64) throws(FileError) {
    for name in try allNames(in: directory) where name.contains(leftover) {
      let file = "\(directory)/\(name)"
      guard let changed = Files.changedSeconds(file),
        changed < nowSeconds - Int64(leftoverSeconds)
      else { continue }
      try remove(file)
    }
  }

  private static func allNames(in directory: String) throws(FileError) -> [String] {
    try Files.names(in: directory).filter { !$0.hasPrefix(".") }
  }

  private static let leftover = ".part"
}
