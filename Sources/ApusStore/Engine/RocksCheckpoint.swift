import CRocksDB
import Glibc

extension RocksDatabase {
  /// Makes a copy of the database as of now: tables as hard links, the rest of its files copied.
  ///
  /// Writes what is only in the log to tables first, at most `RocksOptions.logBytes`.
  ///
  /// - Parameter target: A directory that does not exist, on the same file system.
  func checkpoint(to target: String) throws(StoreError) {
    var message: UnsafeMutablePointer<CChar>?
    let checkpoint = unsafe rocksdb_checkpoint_object_create(handle, &message)
    if let checkpoint = unsafe checkpoint {
      unsafe rocksdb_checkpoint_create(checkpoint, target, 0, &message)
      unsafe rocksdb_checkpoint_object_destroy(checkpoint)
    }
    if let text = unsafe Self.take(&message) {
      throw StoreError(engine: text, path: path, while: .writing)
    }
  }
}

extension StoreDirectory {
  /// Where a copy of the store is made. Below the store, because hard links need its file system.
  private static let checkpointName = "backup"

  var checkpointPath: String { "\(path)/\(Self.checkpointName)" }

  /// Removes the copy, and what an interrupted attempt left.
  func removeCheckpoint() throws(StoreError) {
    // The engine writes to the second name and renames it at the end.
    for folder in [checkpointPath, "\(checkpointPath).tmp"] {
      let copy = StoreDirectory(path: folder)
      guard unsafe access(folder, F_OK) == 0 else { continue }
      for name in try copy.list() where unsafe unlink("\(folder)/\(name)") != 0 {
        throw failure(errno, "removing \(name) of \(folder)")
      }
      if unsafe rmdir(folder) != 0 { throw failure(errno, "removing \(folder)") }
    }
  }

  /// Makes the copy a store of its own.
  func finishCheckpoint() throws(StoreError) {
    try StoreDirectory(path: checkpointPath).writeFormat()
  }
}
