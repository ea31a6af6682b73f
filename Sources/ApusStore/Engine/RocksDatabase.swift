import CRocksDB
import Glibc

/// Owns one open database: opened by `init`, closed by `close`, which the owner calls once, after the last read has
/// returned.
@safe
final class RocksDatabase: @unchecked Sendable {
  let path: String
  let takesWrites: Bool
  let handle: OpaquePointer
  /// By raw value; nil for a family that the store of an older program lacks, which only a writer adds.
  private let families: [OpaquePointer?]
  private let defaultFamily: OpaquePointer
  private let syncOptions: OpaquePointer
  private let mailboxFilter: OpaquePointer
  let readOptions: OpaquePointer
  /// For rows that will not be read again soon.
  let readOnceOptions: OpaquePointer

  /// How a database is opened.
  enum Access {
    case writing(creating: Bool)
    /// In the process that owns the store, in its current state: nothing is written, and no lock is taken.
    case reading
    /// Beside the process that writes: in its current state, updated by `catchUp`. `scratch` is a directory of its
    /// own.
    case following(scratch: String)
  }

  init(
    path: String, for access: Access, options: RocksOptions, log: EngineLog,
    expiryFinder: ExpiryFinder
  ) throws(StoreError) {
    self.path = path
    takesWrites = if case .writing = access { true } else { false }
    let mailboxFilter = unsafe expiryFinder.makeFilter()
    let tuning = RocksTuning(options)
    defer { tuning.destroy() }
    let isCreating = if case .writing(creating: true) = access { true } else { false }
    let tableCount = ((try? StoreDirectory(path: path).list()) ?? []).count { $0.hasSuffix(".sst") }
    let database = unsafe tuning.database(
      creating: isCreating, log: log, tableCount: tableCount)
    defer { unsafe rocksdb_options_destroy(database) }
    // The engine numbers families in the order of their creation: `default`, then ours by raw value.
    let present = takesWrites ? nil : unsafe Self.familyNames(at: path, database)
    let ours = StoreFamily.allCases.sorted { $0.rawValue < $1.rawValue }
      .filter { present?.contains("\($0.name)") ?? true }
    let names = ["default"] + ours.map { "\($0.name)" }
    var familyOptions = unsafe ours.map {
      unsafe Optional(tuning.family($0, mailboxFilter: mailboxFilter))
    }
    unsafe familyOptions.insert(tuning.family(.meta, mailboxFilter: mailboxFilter), at: 0)
    defer { unsafe familyOptions.forEach { unsafe rocksdb_options_destroy($0) } }
    var handles = unsafe [OpaquePointer?](repeating: nil, count: names.count)
    var cNames = unsafe names.map { unsafe UnsafePointer(strdup($0)) }
    defer { unsafe cNames.forEach { unsafe free(UnsafeMutablePointer(mutating: $0)) } }
    var message: UnsafeMutablePointer<CChar>?
    let count = Int32(names.count)
    let opened: OpaquePointer?
    switch access {
    case .writing:
      unsafe opened = rocksdb_open_column_families(
        database, path, count, &cNames, &familyOptions, &handles, &message)
    case .reading:
      unsafe opened = rocksdb_open_for_read_only_column_families(
        database, path, count, &cNames, &familyOptions, &handles, 0, &message)
    case .following(let scratch):
      // The writer removes tables at any time; an open file stays readable.
      unsafe opened = rocksdb_open_as_secondary_column_families(
        database, path, scratch, count, &cNames, &familyOptions, &handles, &message)
    }
    if let text = unsafe Self.take(&message) {
      unsafe rocksdb_compactionfilter_destroy(mailboxFilter)
      throw StoreError(engine: text, path: path, while: .opening)
    }
    guard let opened = unsafe opened else {
      unsafe rocksdb_compactionfilter_destroy(mailboxFilter)
      throw .inputOutput(path: path, detail: "the engine opened nothing")
    }
    let all = unsafe handles.compactMap { unsafe $0 }
    unsafe self.mailboxFilter = mailboxFilter
    unsafe handle = opened
    unsafe defaultFamily = unsafe all[0]
    var families = unsafe [OpaquePointer?](repeating: nil, count: StoreFamily.allCases.count)
    for (index, family) in ours.enumerated() {
      unsafe families[Int(family.rawValue)] = unsafe all[index + 1]
    }
    unsafe self.families = unsafe families
    unsafe syncOptions = rocksdb_writeoptions_create()
    unsafe rocksdb_writeoptions_set_sync(syncOptions, 1)
    unsafe readOptions = rocksdb_readoptions_create()
    unsafe readOnceOptions = rocksdb_readoptions_create()
    unsafe rocksdb_readoptions_set_fill_cache(readOnceOptions, 0)
    for family in ours where number(of: family) != WriteRecord.number(of: family) {
      close()
      throw .corrupted(
        path: path, detail: "the family '\(family.name)' does not have its number")
    }
  }

  func close() {
    unsafe families.forEach { family in
      if let family = unsafe family { unsafe rocksdb_column_family_handle_destroy(family) }
    }
    unsafe rocksdb_column_family_handle_destroy(defaultFamily)
    unsafe rocksdb_writeoptions_destroy(syncOptions)
    unsafe rocksdb_readoptions_destroy(readOptions)
    unsafe rocksdb_readoptions_destroy(readOnceOptions)
    unsafe rocksdb_close(handle)
    // The engine's threads have ended and no longer use it.
    unsafe rocksdb_compactionfilter_destroy(mailboxFilter)
  }

  /// Merges all tables of a family now.
  func compact(_ family: StoreFamily) {
    guard let family = unsafe self.family(family) else { return }
    unsafe rocksdb_compact_range_cf(handle, family, nil, 0, nil, 0)
  }

  /// Bytes of table blocks in the cache that the families share.
  var cachedBlockBytes: Int {
    guard let family = unsafe self.family(.channels) else { return 0 }
    var bytes: UInt64 = 0
    _ = unsafe rocksdb_property_int_cf(handle, family, "rocksdb.block-cache-usage", &bytes)
    return Int(clamping: bytes)
  }

  /// Nil for one that the store does not have: it has no rows.
  func family(_ family: StoreFamily) -> OpaquePointer? { unsafe families[Int(family.rawValue)] }

  private func number(of family: StoreFamily) -> UInt32? {
    unsafe self.family(family).map { unsafe rocksdb_column_family_handle_get_id($0) }
  }

  /// The names of all families of a store; nil if they cannot be listed, which opening it then says.
  private static func familyNames(at path: String, _ options: OpaquePointer) -> Set<String>? {
    var count = 0
    var message: UnsafeMutablePointer<CChar>?
    let names = unsafe rocksdb_list_column_families(options, path, &count, &message)
    guard unsafe take(&message) == nil, let names = unsafe names else { return nil }
    defer { unsafe rocksdb_list_column_families_destroy(names, count) }
    return Set(
      (0..<count).compactMap { index in
        unsafe names[index].map { unsafe String(cString: $0) }
      })
  }

  /// Writes a batch (see `WriteGroup`), and returns once the log is synced.
  func write(_ bytes: Span<UInt8>) throws(StoreError) {
    let batch: OpaquePointer? = unsafe bytes.withUnsafeBufferPointer { source in
      unsafe source.withMemoryRebound(to: CChar.self) {
        unsafe rocksdb_writebatch_create_from($0.baseAddress, $0.count)
      }
    }
    defer { unsafe rocksdb_writebatch_destroy(batch) }
    var message: UnsafeMutablePointer<CChar>?
    unsafe rocksdb_write(handle, syncOptions, batch, &message)
    if let text = unsafe Self.take(&message) {
      throw StoreError(engine: text, path: path, while: .writing)
    }
  }

  /// Reads what the writer has written since.
  func catchUp() throws(StoreError) {
    var message: UnsafeMutablePointer<CChar>?
    unsafe rocksdb_try_catch_up_with_primary(handle, &message)
    if let text = unsafe Self.take(&message) {
      throw StoreError(engine: text, path: path, while: .reading)
    }
  }

  /// The text of an error, which is freed; nil if there is none.
  static func take(_ message: inout UnsafeMutablePointer<CChar>?) -> String? {
    guard let pointer = unsafe message else { return nil }
    defer { unsafe rocksdb_free(pointer) }
    unsafe message = nil
    return unsafe String(cString: pointer)
  }
}
