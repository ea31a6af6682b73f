import ApusModel

/// Reads the store beside the process that uses it, if any: in the state at opening, updated by `catchUp`.
///
/// It takes no lock, and writes nothing into the store's directory.
package final class RocksFollower: StoreFollower {
  private let database: RocksDatabase

  /// - Parameter scratch: A directory of the reader's own, which the engine requires.
  package init(path: String, scratch: String) throws(StoreError) {
    try StoreDirectory(path: path).prepareReading()
    database = try RocksDatabase(
      path: path, for: .following(scratch: scratch), options: RocksOptions(),
      log: EngineLog { _ in }, expiryFinder: ExpiryFinder())
  }

  deinit { database.close() }

  /// Reads what was written since.
  package func catchUp() throws(StoreError) { try database.catchUp() }

  package func get(
    _ family: StoreFamily, key: Span<UInt8>, once: Bool
  ) throws(StoreError) -> [UInt8]? {
    try database.get(family, key: key, once: once)
  }

  package func scan(
    _ family: StoreFamily, prefix: Span<UInt8>, from start: Span<UInt8>,
    _ visit: (_ key: Span<UInt8>, _ value: Span<UInt8>) -> Bool
  ) throws(StoreError) {
    try database.scan(family, prefix: prefix, from: start, visit)
  }
}
