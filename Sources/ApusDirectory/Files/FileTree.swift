import Glibc

/// Folders with all that is in them.
enum FileTree {
  /// What is below a folder, sorted, by its paths from there.
  struct Content {
    /// Regular files.
    var files: [String] = []
    var folders: [String] = []
  }

  /// What is below a folder. A symbolic link counts as its target. Sockets and other special files are left out.
  static func content(of path: String) throws(FileError) -> Content {
    var found = Content()
    try collect(path, prefix: "", into: &found)
    found.files.sort()
    found.folders.sort()
    return found
  }

  private static func collect(
    _ path: String, prefix: String, into found: inout Content
  ) throws(FileError) {
    for name in try Files.names(in: path) {
      var status = stat()
      guard unsafe stat("\(path)/\(name)", &status) == 0 else {
        if errno == ENOENT { continue }
        throw FileError(path: "\(path)/\(name)", operation: "read", code: errno)
      }
      switch status.st_mode & S_IFMT {
      case S_IFREG: found.files.append(prefix + name)
      case S_IFDIR:
        found.folders.append(prefix + name)
        try collect("\(path)/\(name)", prefix: "\(prefix)\(name)/", into: &found)
      default: continue
      }
    }
  }

  /// Copies a file, or a folder with all files in it, to a path where there is nothing.
  static func copy(_ path: String, to other: String) throws {
    guard isFolder(path) else { return try copyFile(path, to: other) }
    try Files.makeDirectory(other)
    for name in try Files.names(in: path) { try copy("\(path)/\(name)", to: "\(other)/\(name)") }
    try syncNames(in: other)
  }

  /// Makes the names in a folder durable, and those in all folders below it.
  static func syncNames(in path: String) throws(FileError) {
    try Files.syncFolder(of: "\(path)/.")
    for name in try Files.names(in: path) where isFolder("\(path)/\(name)") {
      try syncNames(in: "\(path)/\(name)")
    }
  }

  private static func copyFile(_ path: String, to other: String) throws {
    try Files.copy(path, to: other)
    var status = stat()
    guard unsafe stat(path, &status) == 0, unsafe chmod(other, status.st_mode & 0o777) == 0 else {
      throw FileError(path: other, operation: "set the mode of", code: errno)
    }
  }

  /// Removes a file, or a folder with all that is in it. Follows no symbolic link.
  static func remove(_ path: String) throws(FileError) {
    if isFolder(path), !isLink(path) {
      for name in try Files.names(in: path) { try remove("\(path)/\(name)") }
      guard unsafe rmdir(path) == 0 else {
        throw FileError(path: path, operation: "remove", code: errno)
      }
    } else if unsafe unlink(path) != 0, errno != ENOENT {
      throw FileError(path: path, operation: "remove", code: errno)
    }
  }

  /// Gives a folder with all that is in it to the owner of another path.
  static func give(_ path: String, toOwnerOf other: String) throws(FileError) {
    var status = stat()
    guard unsafe stat(other, &status) == 0 else {
      throw FileError(path: other, operation: "read", code: errno)
    }
    try give(path, status.st_uid, status.st_gid)
  }

  private static func give(_ path: String, _ user: uid_t, _ group: gid_t) throws(FileError) {
    guard unsafe lchown(path, user, group) == 0 else {
      throw FileError(path: path, operation: "change the owner of", code: errno)
    }
    guard isFolder(path), !isLink(path) else { return }
    for name in try Files.names(in: path) { try give("\(path)/\(name)", user, group) }
  }

  static func isFolder(_ path: String) -> Bool {
    var status = stat()
    return unsafe stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
  }

  private static func isLink(_ path: String) -> Bool {
    var status = stat()
    return unsafe lstat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFLNK
  }
}
