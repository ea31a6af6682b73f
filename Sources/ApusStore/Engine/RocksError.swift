/// The C interface gives errors as text only: "IO error: No space left on device: While appending to file: ...".
extension StoreError {
  enum EngineAction {
    case opening
    case reading
    case writing
  }

  /// Sorts the engine's `text` about the store at `path`.
  init(engine text: String, path: String, while action: EngineAction) {
    // A table that is missing is looked for under the name that tables once had, and missed under that one.
    let message = text.replacing(".ldb: No such file", with: ".sst: No such file")
    func says(_ words: String...) -> Bool { words.contains { message.contains($0) } }
    // Db::Open and PosixFileSystem::LockFile: the lock is held by this process, or by another.
    if says("lock hold by current process", "While lock file") {
      self = .locked(path: path)
    } else if says("No space left on device", "Disk quota exceeded") {
      self = .diskFull(path: path, detail: message)
    } else if says("Read-only file system") {
      self = .readOnly(path: path, detail: message)
    } else if says("Permission denied", "Operation not permitted") {
      self = .noPermission(path: path, detail: message)
    } else if message.hasPrefix("Corruption") || says("checksum mismatch") {
      self = .corrupted(path: path, detail: message)
    } else if case .opening = action, says("No such file", "Invalid argument", "NotFound") {
      // A file that another one names is gone, or families are there that this format does not have.
      self = .corrupted(path: path, detail: message)
    } else {
      self = .inputOutput(path: path, detail: message)
    }
  }
}
