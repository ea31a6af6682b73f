import CEngineLog
import CRocksDB

/// The engine's options, from `RocksOptions`. Each call creates an object that the caller destroys.
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

  /// Options of the whole database, which uses `log`.
  ///
  /// - Parameter tableCount: The tables that there are.
  func database(creating: Bool, log: EngineLog, tableCount: Int) -> OpaquePointer {
    let made: OpaquePointer = unsafe rocksdb_options_create()
    unsafe rocksdb_options_set_create_if_missing(made, creating ? 1 : 0)
    // A crash during creation leaves some families missing.
    unsafe rocksdb_options_set_create_missing_column_families(made, 1)
    unsafe rocksdb_options_set_db_write_buffer_size(made, options.memtableBytes)
    unsafe rocksdb_options_set_max_total_wal_size(made, UInt64(options.logBytes))
    // All tables stay open, because the engine drops tables by age only then; with tables of 64 MB for each 130,000
    // stored notifications there are few.
    unsafe rocksdb_options_set_max_open_files(made, -1)
    // The engine starts its 16 threads for opening tables once for each family, also if there is nothing to open.
    unsafe rocksdb_options_set_max_file_opening_threads(
      made, Int32(max(1, min(16, tableCount / 32))))
    unsafe rocksdb_options_set_max_background_jobs(made, Int32(options.backgroundJobs))
    unsafe rocksdb_options_set_max_manifest_file_size(made, 16 * 1024 * 1024)
    // Only one thread writes: support for concurrent writes to a memtable would cost atomic operations for nothing.
    unsafe rocksdb_options_set_allow_concurrent_memtable_write(made, 0)
    unsafe rocksdb_options_set_enable_write_thread_adaptive_yield(made, 0)
    unsafe apus_engine_leave_out_options_file(UnsafeMutableRawPointer(made))
    unsafe log.take(over: made)
    // Damage stops the opening. The engine's default silently drops everything after it. A record that a crash cut off
    // at the end of the log is not damage.
    let recovery =
      options.acceptsLoss
      ? rocksdb_skip_any_corrupted_records_recovery
      : rocksdb_tolerate_corrupted_tail_records_recovery
    unsafe rocksdb_options_set_wal_recovery_mode(made, Int32(recovery))
    unsafe rocksdb_options_set_stats_dump_period_sec(made, 0)
    unsafe rocksdb_options_set_stats_persist_period_sec(made, 0)
    if !options.acceptsLoss { unsafe apus_engine_track_logs(UnsafeMutableRawPointer(made)) }
    return unsafe made
  }

  /// Options of one family. The database uses `mailboxFilter` for as long as it is open.
  func family(_ family: StoreFamily, mailboxFilter: OpaquePointer) -> OpaquePointer {
    let made: OpaquePointer = unsafe rocksdb_options_create()
    if family == .mailbox {
      unsafe rocksdb_options_set_compaction_filter(made, mailboxFilter)
    }
    let table: OpaquePointer = unsafe rocksdb_block_based_options_create()
    defer { unsafe rocksdb_block_based_options_destroy(table) }
    if family == .mailbox {
      // A stored notification is read once, when its device connects or a newer one replaces it.
      unsafe rocksdb_block_based_options_set_no_block_cache(table, 1)
    } else {
      unsafe rocksdb_block_based_options_set_block_cache(table, cache)
    }
    unsafe setIndex(of: family, table)
    if family == .mailbox {
      // Scans for a device without stored notifications are the common case: the filters hold device ids and answer
      // them without reading a block.
      unsafe rocksdb_options_set_prefix_extractor(
        made, rocksdb_slicetransform_create_fixed_prefix(Self.mailboxPrefixBytes))
      unsafe rocksdb_block_based_options_set_whole_key_filtering(table, 0)
      unsafe rocksdb_options_set_memtable_prefix_bloom_size_ratio(made, 0.02)
    }
    if Self.fillsUp(family) {
      // Rows are short-lived: a file in which half of 4,096 neighbouring rows are removals is merged early.
      unsafe rocksdb_options_add_compact_on_deletion_collector_factory(made, 4096, 2048)
    }
    if family == .devices {
      // Lookups usually hit: in the last level, which has nine rows of ten, a filter would be useless.
      unsafe rocksdb_options_set_optimize_filters_for_hits(made, 1)
    }
    unsafe rocksdb_options_set_block_based_table_factory(made, table)
    // Half of the memtable memory for a family that fills up: one is written out while the next accepts rows. Of those
    // of `relay` few are left by then.
    let share = Self.fillsUp(family) ? options.memtableBytes / 2 : options.memtableBytes / 8
    unsafe rocksdb_options_set_write_buffer_size(made, max(share, 64 * 1024))
    unsafe rocksdb_options_set_max_write_buffer_number(made, 2)
    unsafe setCompaction(of: family, made)
    // For payloads of a few hundred bytes compression is not worth its time.
    unsafe rocksdb_options_set_compression(made, Int32(rocksdb_no_compression))
    let target = unsafe UnsafeMutableRawPointer(made)
    switch family {
    case .mailbox:
      unsafe apus_engine_set_rewrite_seconds(target, UInt64(options.mailboxRewriteSeconds))
    case .ledger: unsafe apus_engine_set_ttl(target, UInt64(options.ledgerSeconds))
    case .devices, .meta, .feedback, .channels, .relay: break
    }
    return unsafe made
  }

  /// Whether a row of the family comes and goes with each notification.
  private static func fillsUp(_ family: StoreFamily) -> Bool {
    family == .mailbox || family == .relay
  }

  /// The ledger's lines are written in order of time and removed in that order. Its tables are never merged, which
  /// would rewrite each line many times; the oldest are dropped by age (`RocksOptions.ledgerSeconds`) or when all of
  /// them exceed their size.
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
    // Leveled, because under overwrites universal compaction keeps up to twice the data on disk; sized from the bottom
    // up, so that nine tenths of the rows are in one level and old versions are dropped soon.
    unsafe rocksdb_options_set_compaction_style(made, Int32(rocksdb_level_compaction))
    unsafe rocksdb_options_set_level_compaction_dynamic_level_bytes(made, 1)
  }

  /// Indexes and filters of families with a lookup per notification stay in memory: 3 bytes per device and 5 per
  /// stored notification. In the cache, in partitions of 4 KB, they halved the rate of lookups: each partition is a
  /// lookup of its own, and reads for one device evict what the next one needs.
  ///
  /// For other families they count towards the cache, in such partitions, so that memory does not grow with the
  /// ledger.
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
