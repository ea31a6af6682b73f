import ApusCore
import ApusLog
import ApusLoop

/// What a worker does about the bound on the memory of notifications, beside what its shard decides.
struct MemoryScarcity {
  /// Whether a provider connection is not read because of it.
  fileprivate var hasPauses = false
  private var isReported = false

  /// Whether there is news for the log.
  fileprivate mutating func changes(isScarce: Bool) -> Bool {
    defer { isReported = isScarce }
    return isReported != isScarce
  }
}

extension Worker {
  /// Whether memory is too scarce to read more from a provider connection that has so many notifications undecided.
  func mustPause(undecided count: Int) -> Bool {
    guard count >= shard.undecidedCount else { return false }
    scarcity.hasPauses = true
    return true
  }

  /// Providers whose notifications wait for a stuck device would not notice that memory is free again.
  func readOnAfterScarcity() {
    guard scarcity.hasPauses else { return }
    scarcity.hasPauses = false
    for connection in connections {
      if let connection, connection.isReadingPaused { markDirty(connection) }
    }
  }

  /// Says when memory becomes scarce, and when it no longer is.
  func reportScarcity() {
    let memory = shard.shard.memory
    guard scarcity.changes(isScarce: memory.isScarce) else { return }
    log.limited(
      memory.isScarce ? .warning : .info,
      memory.isScarce ? .memoryScarce : .memorySufficient, atMilliseconds: loop.nowMilliseconds
    ) {
      [
        .number("used-megabytes", Int64(memory.usedBytes >> 20)),
        .number("memory-megabytes", Int64(memory.limitBytes >> 20)),
      ]
    }
  }
}
