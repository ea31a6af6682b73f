import ApusCommand
import ApusStore
import Glibc
import Synchronization

/// Writes groups to a store on another thread: while one group is synced, the caller makes the next.
@safe
final class GroupWriter: @unchecked Sendable {
  private let store: any DurableStore
  /// Available while no group is being written.
  private let turn: UnsafeMutablePointer<sem_t>
  private let failure = Mutex<StoreError?>(nil)

  /// - Parameter place: The path of an embedded store, or the address of a database.
  init(_ place: String) throws(CommandFailure) {
    do { store = try Self.open(place) } catch {
      throw CommandFailure(.configuration, "\(error)")
    }
    unsafe turn = .allocate(capacity: 1)
    unsafe sem_init(turn, 0, 1)
  }

  deinit {
    unsafe sem_destroy(turn)
    unsafe turn.deallocate()
  }

  private static func open(_ place: String) throws -> any DurableStore {
    guard PostgresAddress.isAddress(place) else { return try RocksStore(path: place) }
    var options = PostgresOptions()
    options.allowsSingleServer = true
    return try PostgresStore(PostgresAddress(place), options)
  }

  /// None for a database.
  var counters: RocksStore.Counters {
    (store as? RocksStore)?.counters ?? RocksStore.Counters(syncs: 0, groups: 0)
  }

  func makeGroup() -> WriteGroup { store.makeGroup() }

  /// Passes a group on once the previous one is on disk.
  func write(_ group: consuming WriteGroup) throws(CommandFailure) {
    try wait()
    store.commit(group) { [self] error in
      if let error { failure.withLock { $0 = error } }
      unsafe sem_post(turn)
    }
  }

  /// Waits until everything is on disk.
  func settle() throws(CommandFailure) {
    try wait()
    unsafe sem_post(turn)
  }

  func close() { store.close() }

  private func wait() throws(CommandFailure) {
    while unsafe sem_wait(turn) != 0 {}
    if let error = failure.withLock({ $0 }) { throw CommandFailure(.failed, "\(error)") }
  }
}
