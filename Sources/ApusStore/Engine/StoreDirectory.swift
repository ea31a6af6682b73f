import Glibc

/// The directory of a store, before the engine opens it.
///
/// The format version is in a file of its own, not in a table: opening the engine replays its log and rewrites its
/// files, and data of another version must be refused untouched.
struct StoreDirectory {
  var path: String

  /// The layout of keys and values that this program reads and writes.
  static let formatVersion = 2
  static let formatFile = "FORMAT"
  private static let formatPrefix = "apus store format "
  /// The engine's pointer to its data: without it there is no database.
  static let engineFile = "CURRENT"

  enum Content {
    /// Nothing, or leftovers of a crash during creation.
    case fresh
    case database
  }

  /// Checks the directory, and creates a new store's directory and format file if `creating` allows it.
  func prepare(creating: Bool) throws(StoreError) -> Content {
    if creating { try createDirectory() }
    let names = try list()
    guard names.contains(Self.formatFile) else {
      if names.contains(Self.engineFile) {
        throw .corrupted(path: path, detail: "its file \(Self.formatFile) is missing")
      }
      if let foreign = names.first(where: { $0 != "lost+found" && $0 != temporaryName }) {
        throw .notAStore(path: path, detail: "it contains '\(foreign)'")
      }
      guard creating else { throw .missing(path: path) }
      try writeFormat()
      return .fresh
    }
    try checkFormat()
    if names.contains(Self.engineFile) { return .database }
    // The engine would treat this as a new database and remove the tables.
    if let orphan = names.first(where: {
      $0.hasSuffix(".sst") || $0.hasSuffix(".log") || $0 == StoreProgress.file
    }) {
      throw .corrupted(
        path: path, detail: "its file \(Self.engineFile) is missing, but \(orphan) exists")
    }
    guard creating else {
      throw .corrupted(path: path, detail: "its file \(Self.engineFile) is missing")
    }
    return .fresh
  }

  /// Checks that the directory has a store of a known format. Changes nothing, and needs no permission to write.
  func prepareReading() throws(StoreError) {
    try checkFormat()
  }

  // MARK: The directory

  private func createDirectory() throws(StoreError) {
    // Rows contain users' messages: only the service may read them.
    if unsafe mkdir(path, 0o700) == 0 { return }
    let error = errno
    if error != EEXIST { throw failure(error, "creating the directory") }
  }

  /// Refuses a read-only directory: the engine would fail in the middle of its work.
  func requireWritable() throws(StoreError) {
    if unsafe access(path, W_OK | X_OK) != 0 { throw failure(errno, "writing to the directory") }
  }

  /// The names in the directory; throws if it is not one.
  func list() throws(StoreError) -> [String] {
    guard let directory = unsafe opendir(path) else {
      throw failure(errno, "opening the directory")
    }
    defer { unsafe closedir(directory) }
    var names: [String] = []
    while let entry = unsafe readdir(directory) {
      let name = unsafe withUnsafePointer(to: &entry.pointee.d_name) {
        unsafe $0.withMemoryRebound(to: CChar.self, capacity: 256) { unsafe String(cString: $0) }
      }
      if name != "." && name != ".." { names.append(name) }
    }
    return names.sorted()
  }

  /// Locks the store until the returned descriptor is closed; see `StoreLock`. The engine has a lock of its own, but
  /// only while it writes, and not between a fault and the recovery.
  func lock() throws(StoreError) -> Int32 {
    let file = unsafe open("\(path)/\(Self.formatFile)", O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { throw failure(errno, "opening \(Self.formatFile)") }
    if flock(file, LOCK_EX | LOCK_NB) == 0 { return file }
    let error = errno
    Glibc.close(file)
    throw error == EWOULDBLOCK ? .locked(path: path) : failure(error, "locking the store")
  }

  /// Checks that the directory still is the one that `lock` returned `file` for.
  func requireLocked(by file: Int32) throws(StoreError) {
    var (locked, found) = (stat(), stat())
    guard unsafe fstat(file, &locked) == 0 else { throw failure(errno, "looking at the lock") }
    guard unsafe stat("\(path)/\(Self.formatFile)", &found) == 0 else {
      let error = errno
      if error == ENOENT, unsafe access(path, F_OK) == 0 { throw .replaced(path: path) }
      throw failure(error, "looking for \(Self.formatFile)")
    }
    if locked.st_dev != found.st_dev || locked.st_ino != found.st_ino {
      throw .replaced(path: path)
    }
  }

  // MARK: The format file

  private var temporaryName: String { Self.temporaryName(for: Self.formatFile) }

  private static func temporaryName(for name: String) -> String { name + ".new" }

  private func checkFormat() throws(StoreError) {
    let text = try read(Self.formatFile)
    guard text.hasPrefix(Self.formatPrefix), text.hasSuffix("\n"),
      let version = Int(text.dropFirst(Self.formatPrefix.count).dropLast()), version > 0
    else {
      throw .corrupted(path: path, detail: "its file \(Self.formatFile) contains no format version")
    }
    if version > Self.formatVersion {
      throw .newerVersion(path: path, found: version, supported: Self.formatVersion)
    }
    if version < Self.formatVersion {
      throw .olderVersion(path: path, found: version, supported: Self.formatVersion)
    }
  }

  /// A small file's text; nil if it does not exist.
  func readIfThere(_ name: String) throws(StoreError) -> String? {
    do throws(StoreError) { return try read(name) } catch {
      if case .missing = error { return nil }
      throw error
    }
  }

  func read(_ name: String) throws(StoreError) -> String {
    let file = unsafe open(path + "/" + name, O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { throw failure(errno, "opening \(name)") }
    defer { Glibc.close(file) }
    var bytes = [UInt8](repeating: 0, count: 64)
    let count = unsafe Glibc.read(file, &bytes, bytes.count)
    guard count >= 0 else { throw failure(errno, "reading \(name)") }
    return String(decoding: bytes[..<count], as: UTF8.self)
  }

  func writeFormat() throws(StoreError) {
    try write("\(Self.formatPrefix)\(Self.formatVersion)\n", to: Self.formatFile)
  }

  /// Writes a small file under another name, then renames it: after a crash the file is either complete or unchanged.
  func write(_ text: String, to name: String) throws(StoreError) {
    let temporaryName = Self.temporaryName(for: name)
    let temporary = path + "/" + temporaryName
    let text = Array(text.utf8)
    let file = unsafe open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
    guard file >= 0 else { throw failure(errno, "creating \(temporaryName)") }
    let written = unsafe Glibc.write(file, text, text.count)
    let writeError = written == text.count ? 0 : (written < 0 ? errno : ENOSPC)
    let syncError = fsync(file) == 0 ? 0 : errno
    Glibc.close(file)
    if writeError != 0 { throw failure(writeError, "writing \(temporaryName)") }
    if syncError != 0 { throw failure(syncError, "syncing \(temporaryName)") }
    if unsafe rename(temporary, path + "/" + name) != 0 {
      throw failure(errno, "renaming \(temporaryName)")
    }
    try sync(nil)
  }

  /// Syncs a file of the directory, or the directory itself.
  func sync(_ name: String?) throws(StoreError) {
    let what = name ?? "the directory"
    let target = name.map { "\(path)/\($0)" } ?? path
    let file = unsafe open(target, O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { throw failure(errno, "opening \(what)") }
    defer { Glibc.close(file) }
    if fsync(file) != 0 { throw failure(errno, "syncing \(what)") }
  }

  func failure(_ error: Int32, _ action: String) -> StoreError {
    let detail = unsafe "\(action): \(String(cString: strerror(error)))"
    return switch error {
    case ENOENT: .missing(path: path)
    case ENOTDIR: .notADirectory(path: path)
    case EACCES, EPERM: .noPermission(path: path, detail: detail)
    case EROFS: .readOnly(path: path, detail: detail)
    case ENOSPC, EDQUOT: .diskFull(path: path, detail: detail)
    default: .inputOutput(path: path, detail: detail)
    }
  }
}
