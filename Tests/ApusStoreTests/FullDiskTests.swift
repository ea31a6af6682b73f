import ApusModel
import DiskFaults
import Foundation
import Glibc
import Synchronization
import Testing

@testable import ApusStore

/// The store on a real file system of a few megabytes. Mounting one takes root.
@Suite("A disk that is full", .serialized, .enabled(if: getuid() == 0, "mounting takes root"))
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

  /// What an operator would delete.
  private func putBallast() throws {
    try Data(count: 4 * 1024 * 1024).write(to: URL(filePath: ballast))
  }

  /// Writes from `first` on until the disk is full; returns the first number that was not taken.
  private func fill(_ store: RocksStore, from first: Int = 0) async throws -> Int {
    for number in first..<first + 1000 {
      guard let failure = await commit(store, { $0.put(.mailbox, key(number), value) }) else {
        continue
      }
      guard case .diskFull = failure else {
        // The commit behind the first failure finds the store closed.
        try #require(failure == .unavailable, "\(failure)")
        return number
      }
      return number
    }
    throw StoreError.unavailable
  }

  @Test("Commits fail for as long as it lasts, and work again once there is room; nothing is lost")
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
    // Nobody else gets it meanwhile.
    #expect(throws: StoreError.locked(path: path)) { try RocksStore(path: path) }
    // Nor does that keep what is there from being read.
    var first: [UInt8]?
    while true {
      first = try? store.get(.mailbox, key(0))
      if first != nil { break }
      // It is being opened again.
      _ = await events.next()
    }
    #expect(first == value)
    // The store tries again and again to open what it had to close.
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
    // However often it was opened: so many in a window, and a line that counts the others.
    let windows = 2 + Int((ContinuousClock.now - started) / .seconds(Limits.logWindowSeconds))
    #expect(messages.withLock { $0 } <= (Limits.logLinesPerWindow + 1) * windows)
  }

  /// Takes what is still free.
  private func fillRest() { SmallFileSystem.fill(root + "/rest") }

  @Test("The store closes on a full disk, says so where it cannot open, and opens with room again")
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

  @Test("The engine writes no diary beside the data")
  func noDiary() throws {
    let store = try RocksStore(path: path, options: options())
    store.close()
    let names = try FileManager.default.contentsOfDirectory(atPath: path)
    #expect(!names.contains { $0.hasPrefix("LOG") })
  }
}

@Suite("What the engine says")
struct EngineLogTests {
  @Test("So many messages in a window are passed on; the next window tells how many were left out")
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
