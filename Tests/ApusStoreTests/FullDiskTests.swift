import ApusModel
import DiskFaults
import Foundation
import Glibc
import Synchronization
import Testing

@testable import ApusStore

/// The store on a real file system of a few megabytes. Mounting one requires root.
@Suite("A full disk", .serialized, .enabled(if: getuid() == 0, "mounting takes root"))
final class FullDiskTests {
  private let root: String
  private let disk: SmallFileSystem
  private var ballast: String { root + "/ballast" }
  private var path: String { root + "/store" }
  private let value = [UInt8](repeating: 1, count: 64 * 1024)

  init() throws {
    root = NSTemporaryDirectory() + "apus-disk-" + UUID().uuidString
    try FileManager.default.createDirectory(atPath: root, withIntermediateDirectories: true)
    disk = try SmallFileSystem(.ext4, at: root, megabytes: 12)
  }

  deinit {
    disk.unmount()
    rmdir(root)
  }

  private func options(
    _ onEvent: @escaping @Sendable (StoreEvent) -> Void = { _ in }
  ) -> RocksOptions {
    var options = RocksOptions()
    options.retryMilliseconds = 1
    options.maximumRetryMilliseconds = 5
    options.onEvent = onEvent
    return options
  }

  private func key(_ number: Int) -> [UInt8] {
    [0, 0, 0, 0, 0, 0, UInt8(number >> 8), UInt8(number & 0xff)] + [UInt8](repeating: 0, count: 5)
  }

  /// A file that an operator would delete.
  private func putBallast() throws {
    try Data(count: 4 * 1024 * 1024).write(to: URL(filePath: ballast))
  }

  /// Writes from `first` on until the disk is full; returns the first number refused.
  private func fill(_ store: RocksStore, from first: Int = 0) async throws -> Int {
    for number in first..<first + 1000 {
      guard let failure = await commit(store, { $0.put(.mailbox, key(number), value) }) else {
        continue
      }
      guard case .diskFull = failure else {
        // The commit after the first failure finds the store closed.
        try #require(failure == .unavailable, "\(failure)")
        return number
      }
      return number
    }
    throw StoreError.unavailable
  }

  @Test("Commits fail while the disk is full, work again with free space, and nothing is lost")
  func runningFull() async throws {
    try putBallast()
    let messages = Mutex(0)
    let events = StoreEvents()
    var options = options(events.note)
    options.onMessage = { _ in messages.withLock { $0 += 1 } }
    let started = ContinuousClock.now
    let store = try RocksStore(path: path, options: options)
    var taken = Array(0..<(try await fill(store)))
    #expect(!taken.isEmpty)
    fillRest()
    // It stays locked meanwhile.
    #expect(throws: StoreError.locked(path: path)) { try RocksStore(path: path) }
    // Existing data stay readable.
    var first: [UInt8]?
    while true {
      first = try? store.get(.mailbox, key(0))
      if first != nil { break }
      // It is being reopened.
      _ = await events.next()
    }
    #expect(first == value)
    // The store keeps trying to reopen what it had to close.
    for number in 1000..<1200 {
      if await commit(store, { $0.put(.mailbox, key(number), value) }) == nil {
        taken.append(number)
      } else {
        _ = await events.next()
      }
    }
    unlink(ballast)
    unlink(root + "/rest")
    while await commit(store, { $0.put(.meta, [2], [2]) }) != nil { await events.awaitRecovery() }
    for number in taken { #expect(try store.get(.mailbox, key(number)) == value) }
    store.close()
    // However often it was opened: a bounded number per window, and a line with the number of others.
    let windows = 2 + Int((ContinuousClock.now - started) / .seconds(Limits.logWindowSeconds))
    #expect(messages.withLock { $0 } <= (Limits.logLinesPerWindow + 1) * windows)
  }

  /// Uses up the free space.
  private func fillRest() { SmallFileSystem.fill(root + "/rest") }

  @Test("The store closes on a full disk, reports a failed opening, and opens with free space")
  func closingFull() async throws {
    try putBallast()
    let store = try RocksStore(path: path, options: options())
    let taken = try await fill(store)
    fillRest()
    store.close()
    do {
      try RocksStore(path: path, options: options()).close()
    } catch {
      guard case .diskFull = error else {
        Issue.record("\(error)")
        return
      }
    }
    unlink(ballast)
    unlink(root + "/rest")
    let again = try RocksStore(path: path, options: options())
    for number in 0..<taken { #expect(try again.get(.mailbox, key(number)) == value) }
    #expect(await commit(again) { $0.put(.meta, [2], [2]) } == nil)
    again.close()
  }

  @Test("The engine writes no log file beside the data")
  func noDiary() throws {
    let store = try RocksStore(path: path, options: options())
    store.close()
    let names = try FileManager.default.contentsOfDirectory(atPath: path)
    #expect(!names.contains { $0.hasPrefix("LOG") })
  }
}

@Suite("Messages of the engine")
struct EngineLogTests {
  @Test(
    "A bounded number of messages per window is passed on, and the next window reports the rest")
  func limit() {
    let log = EngineLog { _ in }
    let few = Limits.logLinesPerWindow
    let lines = (0..<few + 15).flatMap { log.lines(for: "\($0)", atMilliseconds: 100) }
    #expect(lines == (0..<few).map { "\($0)" })
    let later = 100 + UInt64(Limits.logWindowSeconds) * 1000
    #expect(
      log.lines(for: "later", atMilliseconds: later)
        == ["15 more messages were suppressed", "later"])
  }
}
