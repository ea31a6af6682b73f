import ApusModel
import CRocksDB

extension RocksDatabase {
  func get(
    _ family: StoreFamily, key: Span<UInt8>, once: Bool
  ) throws(StoreError) -> [UInt8]? {
    guard let table = unsafe self.family(family) else { return nil }
    var message: UnsafeMutablePointer<CChar>?
    let options = unsafe once ? readOnceOptions : readOptions
    // Pinned: one copy, from the engine's block into the array.
    let pinned: OpaquePointer? = unsafe key.withUnsafeBufferPointer { key in
      unsafe key.withMemoryRebound(to: CChar.self) {
        unsafe rocksdb_get_pinned_cf(
          handle, options, table, $0.baseAddress, $0.count, &message)
      }
    }
    if let text = unsafe Self.take(&message) {
      throw StoreError(engine: text, path: path, while: .reading)
    }
    guard let pinned = unsafe pinned else { return nil }
    defer { unsafe rocksdb_pinnableslice_destroy(pinned) }
    var count = 0
    let start = unsafe rocksdb_pinnableslice_value(pinned, &count)
    return unsafe [UInt8](Self.bytes(start, count))
  }

  func scan(
    _ family: StoreFamily, prefix: Span<UInt8>, from start: Span<UInt8>,
    _ visit: (_ key: Span<UInt8>, _ value: Span<UInt8>) -> Bool
  ) throws(StoreError) {
    guard let table = unsafe self.family(family) else { return }
    let options: OpaquePointer = unsafe rocksdb_readoptions_create()
    defer { unsafe rocksdb_readoptions_destroy(options) }
    if family == .mailbox {
      // If the prefix contains the whole device id, the filters can be used; a shorter one spans devices.
      let isOneDevice = prefix.count >= RocksTuning.mailboxPrefixBytes
      unsafe rocksdb_readoptions_set_prefix_same_as_start(options, isOneDevice ? 1 : 0)
      unsafe rocksdb_readoptions_set_total_order_seek(options, isOneDevice ? 0 : 1)
    }
    // A whole table: with large reads.
    if prefix.isEmpty {
      unsafe rocksdb_readoptions_set_readahead_size(options, Self.wholeTableReadBytes)
    }
    // Scans of these would fill the cache with rows of which each is read once, and evict what lookups of single rows
    // need.
    if prefix.isEmpty || family == .channels {
      unsafe rocksdb_readoptions_set_fill_cache(options, 0)
    }
    let bound = prefix.firstBehind()
    // The engine keeps the pointer, not the bytes: they must outlive the iterator.
    let failure: String? = unsafe bound.withUnsafeBufferPointer { bound in
      if !bound.isEmpty {
        unsafe bound.withMemoryRebound(to: CChar.self) {
          unsafe rocksdb_readoptions_set_iterate_upper_bound(options, $0.baseAddress, $0.count)
        }
      }
      let iterator: OpaquePointer = unsafe rocksdb_create_iterator_cf(
        handle, options, table)
      defer { unsafe rocksdb_iter_destroy(iterator) }
      // The engine finds nothing beyond the bound.
      return unsafe walk(iterator, from: start.precedes(prefix) ? prefix : start, visit)
    }
    if let failure { throw StoreError(engine: failure, path: path, while: .reading) }
  }

  private static let wholeTableReadBytes = 256 * 1024

  /// One iterator for all: creating one costs as much as finding the rows of two devices.
  func scanMailbox(
    of devices: [DeviceID],
    _ visit: (_ device: Int, _ key: Span<UInt8>, _ value: Span<UInt8>) -> Void
  ) throws(StoreError) {
    let options: OpaquePointer = unsafe rocksdb_readoptions_create()
    defer { unsafe rocksdb_readoptions_destroy(options) }
    unsafe rocksdb_readoptions_set_prefix_same_as_start(options, 1)
    let iterator: OpaquePointer = unsafe rocksdb_create_iterator_cf(
      handle, options, family(.mailbox))
    defer { unsafe rocksdb_iter_destroy(iterator) }
    for (index, device) in devices.enumerated() {
      let prefix = device.storeKey
      let failure = unsafe walk(iterator, from: prefix.span) { key, value in
        visit(index, key, value)
        return true
      }
      if let failure { throw StoreError(engine: failure, path: path, while: .reading) }
    }
  }

  /// Visits rows from `start` on. Returns the engine's message on failure.
  private func walk(
    _ iterator: OpaquePointer, from start: Span<UInt8>,
    _ visit: (_ key: Span<UInt8>, _ value: Span<UInt8>) -> Bool
  ) -> String? {
    unsafe start.withUnsafeBufferPointer { start in
      unsafe start.withMemoryRebound(to: CChar.self) {
        unsafe rocksdb_iter_seek(iterator, $0.baseAddress, $0.count)
      }
    }
    while unsafe rocksdb_iter_valid(iterator) != 0 {
      var keyCount = 0
      var valueCount = 0
      let key = unsafe Self.bytes(rocksdb_iter_key(iterator, &keyCount), keyCount)
      let value = unsafe Self.bytes(rocksdb_iter_value(iterator, &valueCount), valueCount)
      guard unsafe visit(key.span, value.span) else { return nil }
      unsafe rocksdb_iter_next(iterator)
    }
    var message: UnsafeMutablePointer<CChar>?
    unsafe rocksdb_iter_get_error(iterator, &message)
    return unsafe Self.take(&message)
  }

  private static func bytes(
    _ start: UnsafePointer<CChar>?, _ count: Int
  ) -> UnsafeBufferPointer<UInt8> {
    unsafe UnsafeBufferPointer(
      start: UnsafeRawPointer(start)?.assumingMemoryBound(to: UInt8.self), count: count)
  }
}
