import ApusModel
import Synchronization

/// Numbers for accepted notifications, each larger than all before, across restarts and without a clock.
///
/// The store keeps a ceiling below which numbers may have been assigned. A start begins at that ceiling, and assigns
/// no number before a higher ceiling is on disk. The unused numbers of a block are lost at a shutdown: 2^40 starts
/// would use up 64 bits.
package final class AcceptanceOrder: Sendable {
  /// Numbers covered by one write to the store: about a minute at the highest rate of one machine.
  package static let defaultBlockSize: UInt64 = 1 << 24

  private static let key: StaticString = "order-ceiling"
  /// The layout of the value: this byte, then the ceiling in 8 bytes, big-endian.
  private static let version: UInt8 = 1

  private let store: any DurableStore
  private let blockSize: UInt64
  private let following: Atomic<UInt64>
  private let ceiling: Atomic<UInt64>
  private let isExtending = Atomic(false)

  /// Reads the ceiling and requests the first block. Until it is on disk `next` returns nil.
  ///
  /// - Parameter ready: Called once, on the store's commit thread, when the first block is on disk or could not be
  ///   written; after a failure the calls to `next` request it again.
  package init(
    store: any DurableStore, blockSize: UInt64 = AcceptanceOrder.defaultBlockSize,
    ready: @escaping @Sendable (StoreError?) -> Void = { _ in }
  ) throws(StoreError) {
    let start = try Self.read(from: store)
    self.store = store
    self.blockSize = blockSize
    following = Atomic(start)
    ceiling = Atomic(start)
    extend(ready)
  }

  /// The next number. Nil while no block is on disk: the provider is told to retry later.
  package func next() -> UInt64? {
    var number = following.load(ordering: .relaxed)
    while true {
      let ceiling = ceiling.load(ordering: .acquiring)
      guard number < ceiling else {
        extend()
        return nil
      }
      let result = following.weakCompareExchange(
        expected: number, desired: number + 1, ordering: .relaxed)
      if result.exchanged {
        if ceiling - number <= blockSize / 2 { extend() }
        return number
      }
      number = result.original
    }
  }

  /// Requests a block if none is left and the store takes writes. Call it now and then: otherwise the first
  /// notification after a fault of the store would be refused, although the fault is over.
  package func refill() {
    guard store.isAvailable,
      following.load(ordering: .relaxed) >= ceiling.load(ordering: .acquiring)
    else { return }
    extend()
  }

  /// Requests another block from the store, unless a request is pending.
  private func extend(_ done: @escaping @Sendable (StoreError?) -> Void = { _ in }) {
    guard !isExtending.load(ordering: .relaxed),
      !isExtending.exchange(true, ordering: .acquiringAndReleasing)
    else { return }
    let raised = ceiling.load(ordering: .acquiring) + blockSize
    var group = store.makeGroup()
    Self.put(ceiling: raised, into: &group)
    store.commit(group) { [self] error in
      if error == nil { ceiling.store(raised, ordering: .releasing) }
      isExtending.store(false, ordering: .releasing)
      done(error)
    }
  }

  static func put(ceiling: UInt64, into group: inout WriteGroup) {
    let row = row(ceiling: ceiling)
    group.put(.meta, key: row.key.span, value: row.value.span)
  }

  static func row(ceiling: UInt64) -> (key: [UInt8], value: [UInt8]) {
    var value: [UInt8] = [version]
    value.append(bigEndian: ceiling)
    return (key.bytes, value)
  }

  /// The ceiling below which numbers may have been assigned; 0 in a new store.
  static func read(from store: any StoreReader) throws(StoreError) -> UInt64 {
    let key = key.bytes
    guard let value = try store.get(.meta, key: key.span) else { return 0 }
    var cursor = RecordCursor()
    do throws(RecordError) {
      let version: UInt8 = try cursor.integer("version", in: value.span)
      guard version == Self.version else { throw .unknownVersion(version) }
      let ceiling: UInt64 = try cursor.integer("ceiling", in: value.span)
      try cursor.end(in: value.span)
      guard ceiling <= .max / 2 else { throw .malformed(field: "ceiling") }
      return ceiling
    } catch {
      throw .corrupted(path: "meta/\(Self.key)", detail: "\(error)")
    }
  }
}
