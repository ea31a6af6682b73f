import Foundation
import Testing

@testable import ApusStore

/// A truncated backup, or a removed file: the engine alone would start from scratch, or use a shorter list of tables.
@Suite("Missing or truncated files of the store")
struct MissingFilesTests {
  private let scratch = Scratch()
  private let count = 40

  private func key(_ number: Int) -> [UInt8] { [0, UInt8(number)] }

  private func names(_ isMeant: (String) -> Bool) throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: scratch.path).filter(isMeant)
  }

  private func remove(_ name: String) throws {
    try FileManager.default.removeItem(atPath: "\(scratch.path)/\(name)")
  }

  /// A store with some tables and a log, as after a kill.
  private func make() async throws {
    var options = RocksOptions()
    options.progressMilliseconds = 0
    let store = try RocksStore(path: scratch.path, options: options)
    for number in 0..<count {
      #expect(await commit(store) { $0.put(.meta, key(number), [UInt8(number)]) } == nil)
      if number % 10 == 9 { try store.compact(.meta) }
    }
    #expect(await commit(store) { $0.put(.meta, key(count), [UInt8(count)]) } == nil)
    try scratch.kill(store)
  }

  private func expectCorrupted(_ detail: String) {
    let error = #expect(throws: StoreError.self) { try RocksStore(path: scratch.path) }
    guard case .corrupted(scratch.path, let found) = error, found.contains(detail) else {
      Issue.record("\(String(describing: error)) without '\(detail)'")
      return
    }
  }

  private func expectAll() throws {
    let store = try RocksStore(path: scratch.path)
    for number in 0...count { #expect(try store.get(.meta, key(number)) == [UInt8(number)]) }
    store.close()
  }

  @Test("A store opens after a kill, repeatedly")
  func intact() async throws {
    try await make()
    for _ in 0..<4 { try expectAll() }
  }

  @Test("The state of the files is noted soon after the start without any write, and at the end")
  func noted() async throws {
    var options = RocksOptions()
    options.progressMilliseconds = 50
    let first = try RocksStore(path: scratch.path, options: options)
    #expect(try names { $0 == "PROGRESS" }.isEmpty)
    for _ in 0..<200 where try names({ $0 == "PROGRESS" }).isEmpty {
      try await Task.sleep(for: .milliseconds(20))
    }
    let early = try String(contentsOfFile: "\(scratch.path)/PROGRESS", encoding: .utf8)
    first.close()
    options.progressMilliseconds = 60_000
    let second = try RocksStore(path: scratch.path, options: options)
    second.close()
    #expect(try String(contentsOfFile: "\(scratch.path)/PROGRESS", encoding: .utf8) != early)
  }

  @Test("A truncated MANIFEST is damage", arguments: [60, 90, 99])
  func shortManifest(percent: Int) async throws {
    try await make()
    let name = try #require(names { $0.hasPrefix("MANIFEST") }.max())
    let file = URL(filePath: "\(scratch.path)/\(name)")
    let content = try Data(contentsOf: file)
    try content.prefix(content.count * percent / 100).write(to: file)
    expectCorrupted("bytes, but had \(content.count)")
    // Nothing was changed: with the original file, everything is there.
    try content.write(to: file)
    try expectAll()
  }

  @Test("A missing log is damage even if a newer one exists")
  func missingOlderLog() async throws {
    var options = RocksOptions()
    options.memtableBytes = 4 << 20
    let store = try RocksStore(path: scratch.path, options: options)
    // One record keeps the first log. Filling the memtable of another family begins the second one.
    #expect(await commit(store) { $0.put(.meta, key(0), [1]) } == nil)
    let value = [UInt8](repeating: 0x5a, count: 100_000)
    for number in 0..<25 {
      #expect(await commit(store) { $0.put(.mailbox, key(number), value) } == nil)
    }
    let logs = try names { $0.hasSuffix(".log") }.sorted()
    try #require(logs.count == 2, "\(logs)")
    try scratch.kill(store)
    let first = "\(scratch.path)/\(logs[0])"
    try FileManager.default.moveItem(atPath: first, toPath: "\(scratch.root)/kept")
    expectCorrupted("log")
    // With the file back everything is there; if the loss is accepted, the content of the others.
    options.acceptsLoss = true
    let rest = try RocksStore(path: scratch.path, options: options)
    #expect(try rest.get(.mailbox, key(24)) == value)
    rest.close()
  }

  @Test("An older MANIFEST, named by the CURRENT of a backup, is damage")
  func olderManifest() async throws {
    try await make()
    let current = URL(filePath: "\(scratch.path)/CURRENT")
    let name = try #require(names { $0.hasPrefix("MANIFEST") }.max())
    try FileManager.default.copyItem(
      atPath: "\(scratch.path)/\(name)", toPath: "\(scratch.path)/MANIFEST-000001")
    try Data("MANIFEST-000001\n".utf8).write(to: current)
    expectCorrupted("had already used \(name)")
  }

  @Test("A missing MANIFEST or CURRENT is damage", arguments: ["MANIFEST", "CURRENT"])
  func missing(prefix: String) async throws {
    try await make()
    for name in try names({ $0.hasPrefix(prefix) }) { try remove(name) }
    expectCorrupted(prefix)
  }

  @Test("A missing log is damage")
  func missingLog() async throws {
    try await make()
    for name in try names({ $0.hasSuffix(".log") }) { try remove(name) }
    expectCorrupted(".log is missing")
  }

  @Test("Only the notes beside the engine's files are damage")
  func nothing() async throws {
    try await make()
    for name in try names({ $0 != "FORMAT" && $0 != "PROGRESS" }) { try remove(name) }
    expectCorrupted("CURRENT is missing")
  }

  @Test("If the operator accepts it, each missing table is dropped and the others are kept")
  func missingTables() async throws {
    let store = try RocksStore(path: scratch.path)
    let families: [StoreFamily] = [.meta, .devices, .feedback]
    for family in families {
      #expect(
        await commit(store) { $0.put(family, key(0), [UInt8](repeating: 1, count: 100)) } == nil)
      try store.compact(family)
    }
    #expect(await commit(store) { $0.put(.meta, key(1), [1]) } == nil)
    store.close()
    // A table for each family, in that order.
    let tables = try names { $0.hasSuffix(".sst") }.sorted()
    try #require(tables.count == 3)
    try remove(tables[0])
    try remove(tables[1])
    expectCorrupted(".sst")
    let lock = try StoreLock(path: scratch.path)
    let (rest, lost) = try RocksStore.openAcceptingLoss(
      path: scratch.path, options: RocksOptions(), lock: lock)
    #expect(Set(lost.map(\.name)) == Set(tables[..<2]))
    #expect(try rest.get(.meta, key(0)) == nil && rest.get(.devices, key(0)) == nil)
    #expect(try rest.get(.feedback, key(0))?.count == 100)
    #expect(try rest.get(.meta, key(1)) == [1])
    rest.close()
    // The lock is its owner's, also after the store was closed.
    #expect(throws: StoreError.locked(path: scratch.path)) { try RocksStore(path: scratch.path) }
    withExtendedLifetime(lock) {}
  }

  @Test("A store opens with the lock that its caller has, and nobody else opens it")
  func givenLock() async throws {
    try await make()
    var lock: StoreLock? = try StoreLock(path: scratch.path)
    #expect(throws: StoreError.locked(path: scratch.path)) { try RocksStore(path: scratch.path) }
    let store = try RocksStore(path: scratch.path, lock: lock)
    #expect(try store.get(.meta, key(0)) == [0])
    lock = nil
    #expect(throws: StoreError.locked(path: scratch.path)) { try RocksStore(path: scratch.path) }
    store.close()
    let again = try RocksStore(path: scratch.path)
    #expect(try again.get(.meta, key(0)) == [0])
    again.close()
  }

  @Test("A list of tables that names none cannot be repaired")
  func unmendable() async throws {
    try await make()
    for name in try names({ $0.hasPrefix("MANIFEST") }) { try remove(name) }
    let path = scratch.path
    #expect(throws: StoreError.self) {
      try RocksStore.openAcceptingLoss(path: path, options: RocksOptions(), lock: nil)
    }
  }

  @Test("If the operator accepts the loss the store opens with the rest")
  func acceptedLoss() async throws {
    try await make()
    for name in try names({ $0.hasSuffix(".log") }) { try remove(name) }
    var options = RocksOptions()
    options.acceptsLoss = true
    let store = try RocksStore(path: scratch.path, options: options)
    for number in 0..<count { #expect(try store.get(.meta, key(number)) == [UInt8(number)]) }
    #expect(try store.get(.meta, key(count)) == nil)
    store.close()
    // From now on it is complete.
    try RocksStore(path: scratch.path).close()
  }

  // MARK: While the store is open

  /// Writes small values, for which the engine needs no new file, until one is refused.
  private func failure(of store: RocksStore) async throws -> StoreError {
    let start = ContinuousClock.now
    while ContinuousClock.now - start < .seconds(30) {
      if let error = await commit(store, { $0.put(.meta, [9], [9]) }), error != .unavailable {
        return error
      }
      try await Task.sleep(for: .milliseconds(20))
    }
    throw StoreError.closed
  }

  private func awaitRecovery(of store: RocksStore) async throws {
    let start = ContinuousClock.now
    while !store.isAvailable, ContinuousClock.now - start < .seconds(30) {
      try await Task.sleep(for: .milliseconds(5))
    }
    #expect(await commit(store) { $0.put(.meta, [9], [9]) } == nil)
  }

  private func openStore() throws -> RocksStore {
    var options = RocksOptions()
    options.retryMilliseconds = 1
    options.maximumRetryMilliseconds = 5
    return try RocksStore(path: scratch.path, options: options)
  }

  @Test("A directory that is moved away refuses writes, and accepts them when it is back")
  func movedAway() async throws {
    let store = try openStore()
    defer { store.close() }
    #expect(await commit(store) { $0.put(.meta, [1], [1]) } == nil)
    let away = scratch.root + "/away"
    try FileManager.default.moveItem(atPath: scratch.path, toPath: away)
    #expect(try await failure(of: store) == .missing(path: scratch.path))
    #expect(!FileManager.default.fileExists(atPath: scratch.path), "no new store in its place")
    try FileManager.default.moveItem(atPath: away, toPath: scratch.path)
    try await awaitRecovery(of: store)
    #expect(try store.get(.meta, [1]) == [1])
  }

  @Test("A directory that is replaced by a copy refuses writes until the original is back")
  func replaced() async throws {
    let store = try openStore()
    defer { store.close() }
    #expect(await commit(store) { $0.put(.meta, [1], [1]) } == nil)
    let away = scratch.root + "/away"
    try FileManager.default.moveItem(atPath: scratch.path, toPath: away)
    try FileManager.default.copyItem(atPath: away, toPath: scratch.path)
    let error = try await failure(of: store)
    #expect(error == .replaced(path: scratch.path))
    #expect("\(error)".contains("restart the service"))
    try await Task.sleep(for: .milliseconds(50))
    #expect(!store.isAvailable)
    try FileManager.default.removeItem(atPath: scratch.path)
    try FileManager.default.moveItem(atPath: away, toPath: scratch.path)
    try await awaitRecovery(of: store)
  }

  @Test(
    "A replacement without some of the files is not taken for damage of the store",
    arguments: ["CURRENT", "FORMAT"])
  func replacedByPart(missing: String) async throws {
    let store = try openStore()
    defer { store.close() }
    #expect(await commit(store) { $0.put(.meta, [1], [1]) } == nil)
    let (away, part) = (scratch.root + "/away", scratch.root + "/part")
    try FileManager.default.copyItem(atPath: scratch.path, toPath: part)
    try FileManager.default.removeItem(atPath: "\(part)/\(missing)")
    try FileManager.default.moveItem(atPath: scratch.path, toPath: away)
    try FileManager.default.moveItem(atPath: part, toPath: scratch.path)
    #expect(try await failure(of: store) == .replaced(path: scratch.path))
    try await Task.sleep(for: .milliseconds(50))
    #expect(store.fault == .replaced(path: scratch.path))
    try FileManager.default.removeItem(atPath: scratch.path)
    try FileManager.default.moveItem(atPath: away, toPath: scratch.path)
    try await awaitRecovery(of: store)
  }
}
