import Glibc

/// Locks a store against other processes, and against other stores in this one, until its last owner releases it.
package final class StoreLock: Sendable {
  /// Of the store's format file.
  let descriptor: Int32

  /// Throws `.locked` if the store is open elsewhere.
  package convenience init(path: String) throws(StoreError) {
    try self.init(StoreDirectory(path: path))
  }

  init(_ directory: StoreDirectory) throws(StoreError) { descriptor = try directory.lock() }

  deinit { Glibc.close(descriptor) }
}
