import ApusStore
import Foundation
import Testing

@Suite("Store on disk")
struct RocksStoreTests {
  @Test("A completed commit is in a copy of the files made at that moment")
  func durable() async throws {
    let scratch = Scratch()
    let store = try RocksStore(path: scratch.path)
    let device: [UInt8] = [0, 0, 0, 0, 0, 0, 0, 9]
    for app in UInt8(0)..<50 {
      #expect(await commit(store) { $0.put(.mailbox, device + [0, 0, 0, app, 0], [app]) } == nil)
    }
    #expect(await commit(store) { $0.delete(.mailbox, device + [0, 0, 0, 0, 0]) } == nil)
    // The store is neither closed nor flushed: the rows are only in its log.
    let copy = scratch.root + "/copy"
    try FileManager.default.copyItem(atPath: scratch.path, toPath: copy)
    let names = try FileManager.default.contentsOfDirectory(atPath: copy)
    #expect(!names.contains { $0.hasSuffix(".sst") })
    let second = try RocksStore(path: copy)
    let rows = try second.rows(.mailbox, prefix: device)
    #expect(rows.map { $0[1] } == (1..<50).map { [UInt8($0)] })
    second.close()
    store.close()
  }

  @Test("An opening writes no file with the engine's options, and says nothing of it")
  func noOptionsFile() async throws {
    let scratch = Scratch()
    let messages = Recorder<String>()
    var options = RocksOptions()
    options.onMessage = { messages.append($0) }
    for _ in 0..<2 {
      let store = try RocksStore(path: scratch.path, options: options)
      #expect(await commit(store) { $0.put(.meta, [1], [1]) } == nil)
      store.close()
    }
    let names = try FileManager.default.contentsOfDirectory(atPath: scratch.path)
    #expect(names.contains("CURRENT") && !names.contains { $0.hasPrefix("OPTIONS") })
    #expect(messages.all.isEmpty, "\(messages.all)")
  }

  @Test("Everything submitted while one group is being synced is written with one sync")
  func groupCommit() async throws {
    let scratch = Scratch()
    let store = try RocksStore(path: scratch.path)
    let entered = Latch()
    let gate = DispatchSemaphore(value: 0)
    let recorder = Recorder<UInt8>()
    let latch = Latch()
    var first = store.makeGroup()
    first.put(.meta, [0], [0])
    // The completion blocks the commit thread like a slow disk.
    store.commit(first) { _ in
      entered.arrive()
      gate.wait()
    }
    await entered.wait()
    #expect(store.counters == RocksStore.Counters(syncs: 1, groups: 1))
    for number in UInt8(1)...100 {
      var group = store.makeGroup()
      group.put(.meta, [number], [number])
      group.put(.ledger, [1], [number])
      store.commit(group) { error in
        #expect(error == nil)
        recorder.append(number)
        latch.arrive()
      }
    }
    gate.signal()
    await latch.wait(for: 100)
    #expect(store.counters == RocksStore.Counters(syncs: 2, groups: 101))
    #expect(recorder.all == Array(1...100))
    #expect(try store.rows(.meta, prefix: []).count == 101)
    #expect(try store.get(.ledger, [1]) == [100])
    store.close()
  }

  @Test("Rows survive closing and opening, in memtables and in tables")
  func reopen() async throws {
    let scratch = Scratch()
    var options = RocksOptions()
    options.memtableBytes = 128 * 1024
    for round in UInt8(0)..<3 {
      let store = try RocksStore(path: scratch.path, options: options)
      for number in UInt8(0)..<40 {
        let value = [UInt8](repeating: round, count: 4096)
        #expect(
          await commit(store) {
            $0.put(.mailbox, [0, 0, 0, 0, 0, 0, round, number, 0, 0, 0, 1, 0], value)
          } == nil)
      }
      #expect(try store.rows(.mailbox, prefix: []).count == 40 * (Int(round) + 1))
      #expect(try store.rows(.mailbox, prefix: [0, 0, 0, 0, 0, 0, 0, 39]).count == 1)
      #expect(try store.rows(.mailbox, prefix: [0, 0, 0, 0, 0, 0, 9, 39]).isEmpty)
      #expect(
        try store.get(.mailbox, [0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1, 0])
          == [UInt8](repeating: 0, count: 4096))
      store.close()
    }
    #expect(try scratch.files().keys.contains { $0.hasSuffix(".sst") })
  }

  @Test("A new directory is private to its owner, and contains its format")
  func newDirectory() throws {
    let scratch = Scratch()
    try RocksStore(path: scratch.path).close()
    let attributes = try FileManager.default.attributesOfItem(atPath: scratch.path)
    #expect((attributes[.posixPermissions] as? NSNumber)?.intValue == 0o700)
    #expect(try scratch.files()["FORMAT"] == Data("apus store format 2\n".utf8))
  }

  @Test("A second store in the same directory is refused, and the first continues")
  func locked() async throws {
    let scratch = Scratch()
    let store = try RocksStore(path: scratch.path)
    let error = #expect(throws: StoreError.self) { try RocksStore(path: scratch.path) }
    #expect(error == .locked(path: scratch.path))
    #expect("\(try #require(error))".contains("open in another process"))
    #expect(await commit(store) { $0.put(.meta, [1], [1]) } == nil)
    store.close()
    try RocksStore(path: scratch.path).close()
  }

  @Test("Another process that has the store open is detected")
  func lockedByProcess() throws {
    let scratch = Scratch()
    try RocksStore(path: scratch.path).close()
    let holder = Process()
    holder.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    holder.arguments = [
      "python3", "-c",
      "import fcntl,sys; f=open(sys.argv[1],'r+'); fcntl.lockf(f,fcntl.LOCK_EX); print('held',"
        + "flush=True); sys.stdin.read()", scratch.path + "/LOCK",
    ]
    let input = Pipe()
    let output = Pipe()
    holder.standardInput = input
    holder.standardOutput = output
    try holder.run()
    let greeting = output.fileHandleForReading.readData(ofLength: 5)
    try #require(greeting == Data("held\n".utf8), "python3 could not lock the file")
    #expect(throws: StoreError.locked(path: scratch.path)) { try RocksStore(path: scratch.path) }
    try input.fileHandleForWriting.close()
    holder.waitUntilExit()
    try RocksStore(path: scratch.path).close()
  }

  @Test(
    "Data of another format are refused and not changed",
    arguments: [(1, "reads only format 2"), (3, "formats up to 2")])
  func otherVersion(found: Int, says text: String) async throws {
    let scratch = Scratch()
    let store = try RocksStore(path: scratch.path)
    _ = await commit(store) { $0.put(.meta, [1], [1]) }
    store.close()
    try scratch.write("apus store format \(found)\n", to: "FORMAT")
    let before = try scratch.files()
    let error = #expect(throws: StoreError.self) { try RocksStore(path: scratch.path) }
    #expect(
      error
        == (found < 2
          ? .olderVersion(path: scratch.path, found: found, supported: 2)
          : .newerVersion(path: scratch.path, found: found, supported: 2)))
    #expect("\(try #require(error))".contains("has format \(found)"))
    #expect("\(try #require(error))".contains(text))
    #expect(try scratch.files() == before)
  }

  @Test("A directory with other content is refused and not changed")
  func foreignDirectory() throws {
    let scratch = Scratch()
    try FileManager.default.createDirectory(
      atPath: scratch.path, withIntermediateDirectories: false)
    try scratch.write("dear diary", to: "diary.txt")
    #expect(throws: StoreError.notAStore(path: scratch.path, detail: "it contains 'diary.txt'")) {
      try RocksStore(path: scratch.path)
    }
    #expect(try scratch.files().keys.sorted() == ["diary.txt"])
  }

  @Test("An empty directory becomes a store, even after a crash during creation")
  func interruptedCreation() throws {
    let scratch = Scratch()
    try FileManager.default.createDirectory(
      atPath: scratch.path, withIntermediateDirectories: false)
    try scratch.write("apus st", to: "FORMAT.new")
    try RocksStore(path: scratch.path).close()
    try RocksStore(path: scratch.path).close()
  }

  @Test("A path that is a file, below a file, or below nothing is refused by name")
  func wrongPaths() throws {
    let scratch = Scratch()
    let file = scratch.root + "/file"
    try Data().write(to: URL(fileURLWithPath: file))
    #expect(throws: StoreError.notADirectory(path: file)) { try RocksStore(path: file) }
    #expect(throws: StoreError.notADirectory(path: file + "/store")) {
      try RocksStore(path: file + "/store")
    }
    let deep = scratch.root + "/a/b"
    #expect(throws: StoreError.missing(path: deep)) { try RocksStore(path: deep) }
  }

  @Test("A directory without write permission is refused by name", .enabled(if: getuid() != 0))
  func noPermission() throws {
    let scratch = Scratch()
    try FileManager.default.createDirectory(
      atPath: scratch.path, withIntermediateDirectories: false,
      attributes: [.posixPermissions: 0o500])
    #expect {
      try RocksStore(path: scratch.path)
    } throws: { error in
      guard case .noPermission? = error as? StoreError else { return false }
      return true
    }
  }

  /// Files that are damaged in turn, and words that the message must then contain.
  static let damages: [(file: String, content: String?)] = [
    ("CURRENT", "nonsense"), ("CURRENT", "MANIFEST-999999\n"), ("CURRENT", nil), ("MANIFEST", "x"),
    ("MANIFEST", nil), ("FORMAT", nil), ("FORMAT", "apus store format \n"), ("FORMAT", ""),
  ]

  @Test("Damage causes an error that names the store and the remedy", arguments: damages.indices)
  func damaged(index: Int) async throws {
    let (file, content) = Self.damages[index]
    let scratch = Scratch()
    let store = try RocksStore(path: scratch.path)
    _ = await commit(store) { $0.put(.meta, [1], [1]) }
    store.close()
    let name = try #require(try scratch.files().keys.first { $0.hasPrefix(file) })
    if let content {
      try scratch.write(content, to: name)
    } else {
      try FileManager.default.removeItem(atPath: scratch.path + "/" + name)
    }
    let error = #expect(throws: StoreError.self) { try RocksStore(path: scratch.path) }
    guard case .corrupted(scratch.path, let detail) = error else {
      Issue.record("\(String(describing: error))")
      return
    }
    #expect(detail.contains(file) || detail.contains("MANIFEST"))
    #expect("\(try #require(error))".contains("restore a backup"))
  }

  @Test("After a disk fault commits fail, then work again, and nothing answered is lost")
  func recovery() async throws {
    let scratch = Scratch()
    let recorder = Recorder<StoreEvent>()
    let recovered = Latch()
    let failing = Latch()
    var options = RocksOptions()
    options.memtableBytes = 128 * 1024
    options.retryMilliseconds = 1
    options.maximumRetryMilliseconds = 5
    options.onEvent = { event in
      recorder.append(event)
      if case .stillFailing = event { failing.arrive() }
      if event == .recovered { recovered.arrive() }
    }
    let store = try RocksStore(path: scratch.path, options: options)
    let value = [UInt8](repeating: 1, count: 8192)
    #expect(await commit(store) { $0.put(.mailbox, Self.key(0), value) } == nil)
    // Without the directory the engine can use the files that it has open, but not create another.
    let away = scratch.root + "/away"
    try FileManager.default.moveItem(atPath: scratch.path, toPath: away)
    var number: UInt16 = 0
    var failure: StoreError?
    while failure == nil && number < 1000 {
      number += 1
      failure = await commit(store) { $0.put(.mailbox, Self.key(number), value) }
    }
    try #require(failure != nil, "the engine did not notice")
    switch failure {
    case .inputOutput(scratch.path, _), .missing(scratch.path): break
    default: Issue.record("\(String(describing: failure))")
    }
    await failing.wait()
    #expect(!store.isAvailable)
    #expect(await commit(store) { $0.put(.meta, [1], [1]) } == .unavailable)
    #expect(throws: StoreError.unavailable) { try store.get(.meta, [1]) }
    #expect(!FileManager.default.fileExists(atPath: scratch.path), "no new store in its place")

    try FileManager.default.moveItem(atPath: away, toPath: scratch.path)
    await recovered.wait()
    #expect(store.isAvailable)
    for earlier in 0..<number { #expect(try store.get(.mailbox, Self.key(earlier)) == value) }
    #expect(try store.get(.meta, [1]) == nil)
    #expect(await commit(store) { $0.put(.meta, [2], [2]) } == nil)
    store.close()
    let events = recorder.all
    #expect(events.first == failure.map { .failed($0) })
    #expect(
      events.dropFirst().first
        == .stillFailing(.missing(path: scratch.path), retryMilliseconds: 1))
    #expect(events.last == .recovered)
  }

  static func key(_ number: UInt16) -> [UInt8] {
    [0, 0, 0, 0, 0, 0, UInt8(number >> 8), UInt8(number & 0xff), 0, 0, 0, 1, 0]
  }

  @Test("A store that stays broken refuses at once, and closes")
  func brokenForGood() async throws {
    let scratch = Scratch()
    let failing = Latch()
    let givenUp = Latch()
    var options = RocksOptions()
    options.memtableBytes = 128 * 1024
    options.retryMilliseconds = 1
    options.onEvent = { event in
      guard case .stillFailing(_, let retry) = event else { return }
      if retry == nil { givenUp.arrive() } else { failing.arrive() }
    }
    let store = try RocksStore(path: scratch.path, options: options)
    let value = [UInt8](repeating: 1, count: 8192)
    let away = scratch.root + "/away"
    try FileManager.default.moveItem(atPath: scratch.path, toPath: away)
    var number: UInt16 = 0
    while number < 1000, await commit(store, { $0.put(.mailbox, Self.key(number), value) }) == nil {
      number += 1
    }
    try #require(number < 1000, "the engine did not notice")
    await failing.wait()
    try FileManager.default.removeItem(atPath: away + "/CURRENT")
    try FileManager.default.moveItem(atPath: away, toPath: scratch.path)
    let files = try scratch.files()
    await givenUp.wait()
    #expect(await commit(store) { $0.put(.meta, [1], [1]) } == .unavailable)
    #expect(await commit(store) { $0.put(.meta, [1], [1]) } == .unavailable)
    store.close()
    #expect(await commit(store) { $0.put(.meta, [1], [1]) } == .closed)
    #expect(try scratch.files() == files)
  }
}
