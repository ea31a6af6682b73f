import CEngineLog
import Glibc

extension RocksStore {
  /// A missing table of the store, with everything in it.
  package struct LostTable: Sendable {
    /// The name of its file.
    package var name: String
    /// The engine's message about it.
    package var reason: String
  }

  /// Opens a damaged store with everything readable: past damage in the logs (`RocksOptions.acceptsLoss`), and without
  /// each table whose file is missing or unreadable. Existing files are kept unchanged, except that a log with damage
  /// that the engine cannot pass is replaced by another (`LogFile.mend`).
  ///
  /// Throws if not even the list of tables can be read.
  ///
  /// - Parameter lock: The store's lock; nil only for a store that was never opened.
  package static func openAcceptingLoss(
    path: String, options given: RocksOptions, lock: StoreLock?
  ) throws(StoreError) -> (store: RocksStore, lost: [LostTable]) {
    var options = given
    options.acceptsLoss = true
    var lost: [LostTable] = []
    while true {
      do throws(StoreError) {
        return (try RocksStore(path: path, options: options, lock: lock), lost)
      } catch {
        // A failing disk may return the table at the next attempt: only damaged ones are dropped.
        guard case .corrupted(_, let detail) = error,
          let name = tableName(in: detail), let number = UInt64(name.dropLast(4)),
          !lost.contains(where: { $0.name == name })
        else { throw error }
        try forget(number, path)
        lost.append(LostTable(name: name, reason: detail))
      }
    }
  }

  /// Removes one table from the engine's list. `rocksdb_repair_db` would make a new list of all table files, removed
  /// ones included, and forget what only the log has of a family without tables.
  private static func forget(_ number: UInt64, _ path: String) throws(StoreError) {
    guard let text = unsafe apus_engine_forget_table(path, number) else { return }
    defer { unsafe free(text) }
    throw .corrupted(path: path, detail: unsafe String(cString: text))
  }

  /// The name of the first table in an engine message.
  static func tableName(in message: String) -> String? {
    guard let end = message.firstRange(of: ".sst")?.lowerBound else { return nil }
    let head = message[..<end]
    let digits = head.suffix(head.reversed().prefix(while: \.isNumber).count)
    return digits.isEmpty ? nil : "\(digits).sst"
  }
}
