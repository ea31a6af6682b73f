import CRocksDB

/// The engine's options, from `RocksOptions`. Each call makes an object that the caller destroys.
@safe
struct RocksTuning {
  private let options: RocksOptions
  /// Shared by all families.
  private let cache: OpaquePointer

  init(_ options: RocksOptions) {
    self.options = options
    unsafe cache = rocksdb_cache_create_lru(options.blockCacheBytes)
  }

  /// The tables keep the cache alive from here on.
  func destroy() { unsafe rocksdb_cache_destroy(cache) }

  /// What holds for the database as a whole, which speaks to `log`.
  func database(creating: Bool, log: EngineLog) -> OpaquePointer {
    let made: OpaquePointer = unsafe rocksdb_options_create()
    unsafe rocksdb_options_set_create_if_missing(made, creating ? 1 : 0)
    // A crash while the database was made leaves some families out.
    unsafe rocksdb_options_set_create_missing_column_families(made, 1)
    unsafe rocksdb_options_set_db_write_buffer_size(made, options.memtableBytes)
    unsafe rocksdb_options_set_max_total_wal_size(made, UInt64(options.logBytes))
    // All tables stay open. The engine drops old ones by their age only where that is so; and a table of 64 MB for
    // each 130,000 notifications that wait makes few of them.
    unsafe rocksdb_options_set_max_open_files(made, -1)
    unsafe rocksdb_options_set_max_background_jobs(made, Int32(options.backgroundJobs))
    unsafe rocksdb_options_set_max_manifest_file_size(made, 16 * 1024 * 1024)
    // One thread writes, always: what lets several of them into a memtable at once costs it atomics for nothing.
    unsafe rocksdb_options_set_allow_concurrent_memtable_write(made, 0)
    unsafe rocksdb_options_set_enable_write_thread_adaptive_yield(made, 0)
    unsafe log.take(over: made)
    // Damage stops the opening. The engine's default drops what is behind it, and says nothing. A record that a crash
    // cut off at the end of the log is no damage.
    let recovery =
      options.acceptsLoss
      ? rocksdb_skip_any_corrupted_records_recovery
      : rocksdb_tolerate_corrupted_tail_records_recovery
    unsafe rocksdb_options_set_wal_recovery_mode(made, Int32(recovery))
    unsafe rocksdb_options_set_stats_dump_period_sec(made, 0)
    unsafe rocksdb_options_set_stats_persist_period_sec(made, 0)
    return unsafe options.acceptsLoss ? made : noticingMissingLogs(made)
  }

  /// Has the engine note in its MANIFEST, when it begins a new log, which ones were synced and how long they are. It
  /// does not open then where one of them is missing or shorter. The C interface has no function for this option.
  private func noticingMissingLogs(_ options: OpaquePointer) -> OpaquePointer {
    let made: OpaquePointer = unsafe rocksdb_options_create()
    var message: UnsafeMutablePointer<CChar>?
    unsafe rocksdb_get_options_from_string(
      options, "track_and_verify_wals_in_manifest=true", made, &message)
    guard unsafe message == nil else {
      preconditionFailure("the store's engine does not know the option for noticing missing logs")
    }
    unsafe rocksdb_options_destroy(options)
    return unsafe made
  }

  /// What holds for one family. `mailboxFilter` is used by the database for as long as it is open.
  func family(_ family: StoreFamily, mailboxFilter: OpaquePointer) -> OpaquePointer {
    let made: OpaquePointer = unsafe rocksdb_options_create()
    if family == .mailbox {
      unsafe rocksdb_options_set_compaction_filter(made, mailboxFilter)
    }
    let table: OpaquePointer = unsafe rocksdb_block_based_options_create()
    defer { unsafe rocksdb_block_based_options_destroy(table) }
    if family == .mailbox {
      // What waits is read once, when its device comes or something newer replaces it.
      unsafe rocksdb_block_based_options_set_no_block_cache(table, 1)
    } else {
      unsafe rocksdb_block_based_options_set_block_cache(table, cache)
    }
    unsafe setIndex(of: family, table)
    if family == .mailbox {
      // A scan for a device with nothing waiting is the common case: the filters hold device ids and answer it
      // without reading a block.
      unsafe rocksdb_options_set_prefix_extractor(
        made, rocksdb_slicetransform_create_fixed_prefix(Self.mailboxPrefixBytes))
      unsafe rocksdb_block_based_options_set_whole_key_filtering(table, 0)
      unsafe rocksdb_options_set_memtable_prefix_bloom_size_ratio(made, 0.02)
      // Rows are short-lived: a file in which half of 4,096 neighbouring rows are removals is merged early.
      unsafe rocksdb_options_add_compact_on_deletion_collector_factory(made, 4096, 2048)
    }
    if family == .devices {
      // Who is asked for is there: in the last level, with nine rows of ten, a filter would say so for nothing.
      unsafe rocksdb_options_set_optimize_filters_for_hits(made, 1)
    }
    unsafe rocksdb_options_set_block_based_table_factory(made, table)
    // Of memtables, half to a family that fills up: one is written out while the next takes rows.
    let share = family == .mailbox ? options.memtableBytes / 2 : options.memtableBytes / 8
    unsafe rocksdb_options_set_write_buffer_size(made, max(share, 64 * 1024))
    unsafe rocksdb_options_set_max_write_buffer_number(made, 2)
    unsafe setCompaction(of: family, made)
    // Payloads of a few hundred bytes pay little back for the time.
    unsafe rocksdb_options_set_compression(made, Int32(rocksdb_no_compression))
    return unsafe made
  }

  /// The ledger's lines come in the order of time and go in that order. Its tables are never merged, which would write
  /// each line many times over; the oldest are dropped, for their age (`RocksOptions.ledgerSeconds`) or when they
  /// all take too much.
  private func setCompaction(of family: StoreFamily, _ made: OpaquePointer) {
    guard family != .ledger else {
      unsafe rocksdb_options_set_write_buffer_size(made, max(options.memtableBytes / 3, 64 * 1024))
      unsafe rocksdb_options_set_compaction_style(made, Int32(rocksdb_fifo_compaction))
      let bounds: OpaquePointer = unsafe rocksdb_fifo_compaction_options_create()
      unsafe rocksdb_fifo_compaction_options_set_max_table_files_size(
        bounds, UInt64(options.ledgerBytes))
      unsafe rocksdb_options_set_fifo_compaction_options(made, bounds)
      unsafe rocksdb_fifo_compaction_options_destroy(bounds)
      return
    }
    // Levels, because under overwrites universal compaction keeps up to twice the data on disk; sized from the bottom
    // up, so that nine tenths of the rows stand in one level and old versions go soon.
    unsafe rocksdb_options_set_compaction_style(made, Int32(rocksdb_level_compaction))
    unsafe rocksdb_options_set_level_compaction_dynamic_level_bytes(made, 1)
  }

  /// Indexes and filters of what is looked up for one notification after the other stay in memory: 3 bytes for each
  /// device and 5 for each notification that waits. In the cache, in parts of 4 KB, they halved the rate of look-ups:
  /// each part is a look-up of its own, and what is read for one device pushes out what the next one needs.
  ///
  /// Of the other families they count against the cache, in such parts, so that memory does not grow with the ledger.
  private func setIndex(of family: StoreFamily, _ table: OpaquePointer) {
    let isLookedUp = family == .mailbox || family == .devices
    unsafe rocksdb_block_based_options_set_cache_index_and_filter_blocks(table, isLookedUp ? 0 : 1)
    if !isLookedUp {
      unsafe rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(table, 1)
      unsafe rocksdb_block_based_options_set_index_type(
        table, Int32(rocksdb_block_based_table_index_type_two_level_index_search))
      unsafe rocksdb_block_based_options_set_partition_filters(table, 1)
    }
    unsafe rocksdb_block_based_options_set_filter_policy(
      table, rocksdb_filterpolicy_create_bloom_full(10))
  }

  /// Bytes of a device id at the beginning of each mailbox key.
  static let mailboxPrefixBytes = 8
}
