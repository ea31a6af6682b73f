import ApusCommand
import ApusStore
import Glibc
import Synchronization

/// Writes groups to a store on another thread: while one group is synced, the caller makes the next.
@safe
final class GroupWriter: @unchecked Sendable {
  private let store: RocksStore
  /// Available while no group is being written.
  private let turn: UnsafeMutablePointer<sem_t>
  private let failure = Mutex<StoreError?>(nil)

  init(_ path: String) throws(CommandFailure) {
    do throws(StoreError) {
      store = try RocksStore(path: path)
    } catch {
      throw CommandFailure(.configuration, "\(error)")
    }
    unsafe turn = .allocate(capacity: 1)
    unsafe sem_init(turn, 0, 1)
  }

  deinit {
    unsafe sem_destroy(turn)
    unsafe turn.deallocate()
  }

  var counters: RocksStore.Counters { store.counters }

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
