import DiskFaults
import Foundation
import Testing

@testable import ApusStore

/// The events of a running store, in order.
struct StoreEvents {
  private let stream: AsyncStream<StoreEvent>
  let note: @Sendable (StoreEvent) -> Void

  init() {
    let (stream, continuation) = AsyncStream.makeStream(of: StoreEvent.self)
    self.stream = stream
    note = { continuation.yield($0) }
  }

  /// Waits for an event that `isMeant` accepts, and drops earlier ones.
  func first(where isMeant: (StoreEvent) -> Bool) async -> StoreEvent? {
    for await event in stream where isMeant(event) { return event }
    return nil
  }

  func next() async -> StoreEvent? { await first { _ in true } }

  func awaitRecovery() async { _ = await first { $0 == .recovered } }

  /// Why an attempt to reopen the store failed.
  func awaitFailedAttempt() async -> StoreError? {
    guard case .stillFailing(let error, _) = await first(where: { $0.isFailedAttempt }) else {
      return nil
    }
    return error
  }
}

extension StoreEvent {
  fileprivate var isFailedAttempt: Bool { if case .stillFailing = self { true } else { false } }
}

/// Faults of a disk with free space: they need no privilege (see `DiskFault`).
@Suite("A failing disk")
struct DiskFaultTests {
  private let scratch = Scratch()
  private let events = StoreEvents()
  private let value = [UInt8](repeating: 7, count: 4096)

  private func options(waitsForDisk: Bool = false) -> RocksOptions {
    var options = RocksOptions()
    // Small, so that a table is written after some dozen rows.
    options.memtableBytes = 512 * 1024
    options.retryMilliseconds = 1
    options.maximumRetryMilliseconds = 5
    options.waitsForDisk = waitsForDisk
    options.onEvent = events.note
    return options
  }

  private func key(_ number: Int) -> [UInt8] {
    [0, 0, 0, 0, 0, 0, UInt8(number >> 8), UInt8(number & 0xff)] + [UInt8](repeating: 0, count: 5)
  }

  /// Writes until the store refuses; returns the accepted numbers and the first error.
  private func write(
    _ store: RocksStore, from first: Int
  ) async -> (taken: [Int], error: StoreError?) {
    var taken: [Int] = []
    for number in first..<first + 2000 {
      if let error = await commit(store, { $0.put(.mailbox, key(number), value) }) {
        return (taken, error)
      }
      taken.append(number)
    }
    return (taken, nil)
  }

  private func expect(_ error: StoreError?, is kind: DiskFault.Kind) {
    switch (kind, error) {
    case (.readOnly, .readOnly(scratch.path, let detail)),
      (.writesFail, .inputOutput(scratch.path, let detail)),
      (.syncsFail, .inputOutput(scratch.path, let detail)),
      (.noDescriptors, .inputOutput(scratch.path, let detail)),
      (.gone, .inputOutput(scratch.path, let detail)):
      #expect(detail.contains(kind.text), "\(detail)")
    default: Issue.record("\(kind): \(String(describing: error))")
    }
  }

  @Test(
    "The store recovers on its own and has lost nothing",
    // Without those that a store meets only when it adds a file.
    arguments: DiskFault.Kind.allCases.filter { $0 != .folderSyncsFail })
  func running(kind: DiskFault.Kind) async throws {
    let store = try RocksStore(path: scratch.path, options: options())
    for number in 0..<10 {
      #expect(await commit(store) { $0.put(.mailbox, key(number), value) } == nil)
    }
    let fault = DiskFault(kind, below: scratch.path)
    let (taken, error) = await write(store, from: 10)
    expect(error, is: kind)
    #expect(!store.isAvailable)
    expect(await events.awaitFailedAttempt(), is: kind)
    expect(store.fault, is: kind)
    // Data on the disk can be read, unless no file can be opened.
    if kind == .noDescriptors || kind == .gone {
      #expect(throws: StoreError.unavailable) { try store.get(.mailbox, key(0)) }
    } else {
      #expect(try store.get(.mailbox, key(9)) == value)
    }
    #expect(await commit(store) { $0.put(.meta, [1], [1]) } == .unavailable)
    #expect(fault.end() > 0)
    await events.awaitRecovery()
    #expect(store.isAvailable && store.fault == nil)
    for number in Array(0..<10) + taken {
      #expect(try store.get(.mailbox, key(number)) == value)
    }
    #expect(await commit(store) { $0.put(.meta, [2], [2]) } == nil)
    store.close()
    let again = try RocksStore(path: scratch.path, options: options())
    for number in Array(0..<10) + taken {
      #expect(try again.get(.mailbox, key(number)) == value)
    }
    #expect(try again.get(.meta, [2]) == [2])
    again.close()
  }

  @Test(
    "A store that starts on a failing disk is readable, and writable once that is possible",
    arguments: [DiskFault.Kind.readOnly, .writesFail, .syncsFail])
  func starting(kind: DiskFault.Kind) async throws {
    let first = try RocksStore(path: scratch.path, options: options())
    #expect(await commit(first) { $0.put(.mailbox, key(0), value) } == nil)
    first.close()
    let fault = DiskFault(kind, below: scratch.path)
    // A caller that did not ask for a read-only store gets none.
    #expect(throws: StoreError.self) { try RocksStore(path: scratch.path, options: RocksOptions()) }
    let options = options(waitsForDisk: true)
    let store = try RocksStore(path: scratch.path, options: options)
    #expect(!store.isAvailable)
    expect(await events.awaitFailedAttempt(), is: kind)
    #expect(try store.get(.mailbox, key(0)) == value)
    #expect(await commit(store) { $0.put(.mailbox, key(1), value) } == .unavailable)
    // It is locked meanwhile.
    let path = scratch.path
    #expect(throws: StoreError.locked(path: path)) { try RocksStore(path: path, options: options) }
    fault.end()
    await events.awaitRecovery()
    #expect(await commit(store) { $0.put(.mailbox, key(1), value) } == nil)
    #expect(try store.get(.mailbox, key(0)) == value)
    store.close()
  }

  @Test("A store that cannot be read at all does not open, and reports why")
  func unreadable() async throws {
    try RocksStore(path: scratch.path, options: options()).close()
    let options = options(waitsForDisk: true)
    let fault = DiskFault(.gone, below: scratch.path)
    defer { fault.end() }
    let path = scratch.path
    let error = #expect(throws: StoreError.self) { try RocksStore(path: path, options: options) }
    expect(error, is: .gone)
  }

  @Test("A damaged store stays closed, even if its disk is read-only")
  func damaged() async throws {
    let first = try RocksStore(path: scratch.path, options: options())
    #expect(await commit(first) { $0.put(.mailbox, key(0), value) } == nil)
    first.close()
    let manifest = try #require(
      FileManager.default.contentsOfDirectory(atPath: scratch.path)
        .filter { $0.hasPrefix("MANIFEST") }.max())
    let file = URL(filePath: "\(scratch.path)/\(manifest)")
    let content = try Data(contentsOf: file)
    try content.prefix(content.count / 2).write(to: file)
    let fault = DiskFault(.readOnly, below: scratch.path)
    defer { fault.end() }
    let options = options(waitsForDisk: true)
    let path = scratch.path
    let error = #expect(throws: StoreError.self) { try RocksStore(path: path, options: options) }
    guard case .corrupted = error else {
      Issue.record("\(String(describing: error))")
      return
    }
  }
}
