import Synchronization

/// Bytes that the notifications of all workers take in memory. Each worker adds its share once a turn.
final class MemoryTotal: Sendable {
  private let bytes = Atomic(0)

  /// The sum with `change`.
  func adding(_ change: Int) -> Int {
    bytes.wrappingAdd(change, ordering: .relaxed).newValue
  }

  var usedBytes: Int { bytes.load(ordering: .relaxed) }
}
