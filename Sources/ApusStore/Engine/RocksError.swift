/// The C interface returns errors only as text: "IO error: No space left on device: While appending to file: ...".
extension StoreError {
  enum EngineAction {
    case opening
    case reading
    case writing
  }

  /// Classifies the engine's `text` about the store at `path`.
  init(engine text: String, path: String, while action: EngineAction) {
    // A missing table is looked for under the old extension, and reported with it.
    let message = text.replacing(".ldb: No such file", with: ".sst: No such file")
    func says(_ words: String...) -> Bool { words.contains { message.contains($0) } }
    // Db::Open and PosixFileSystem::LockFile: this process has the lock, or another.
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
      // A referenced file is missing, or there are families that this format does not have.
      self = .corrupted(path: path, detail: message)
    } else {
      self = .inputOutput(path: path, detail: message)
    }
  }
}
