import ApusRandom
import ApusModel
import ApusStore
import Testing

@Suite("Scans from a key")
struct ScanTests {
  @Test(
    "A scan from a key visits the rows with the prefix that do not precede it",
    arguments: Engine.allCases, [StoreFamily.mailbox, .meta])
  func start(engine: Engine, family: StoreFamily) async throws {
    let scratch = Scratch()
    defer { withExtendedLifetime(scratch) {} }
    let store = try engine.make(in: scratch)
    // In the mailbox keys shorter than a device id do not occur.
    let keys = DurableStoreTests.keys.filter { family != .mailbox || $0.count >= 8 }
    _ = await commit(store) { group in
      for key in keys.shuffled() { group.put(family, key, key + [0]) }
    }
    // Existing and missing ones, before the prefix, inside it and after it.
    let starts: [[UInt8]] =
      [[]] + DurableStoreTests.keys.flatMap { [$0, $0 + [0], $0 + [0x80], Array($0.dropLast())] }
    for prefix in DurableStoreTests.prefixes {
      let under = keys.filter { $0.starts(with: prefix) }
        .sorted { $0.lexicographicallyPrecedes($1) }
      for start in starts where family != .mailbox || start.count >= 8 {
        let expected = under.filter { !$0.lexicographicallyPrecedes(start) }
        let rows = try store.rows(family, prefix: prefix, from: start)
        #expect(rows == expected.map { [$0, $0 + [0]] }, "prefix \(prefix), start \(start)")
      }
    }
    store.close()
  }

  @Test(
    "Consecutive pages contain all rows, while the table grows and shrinks",
    arguments: Engine.allCases,
    [1, 2, 3] as [UInt64])
  func walk(engine: Engine, seed: UInt64) async throws {
    let scratch = Scratch()
    defer { withExtendedLifetime(scratch) {} }
    let store = try engine.make(in: scratch)
    var random = SeededRandom(seed: seed)
    var model: [[UInt8]: [UInt8]] = [:]
    for step in 0..<24 {
      // Twelve steps that mostly add, then twelve that mostly remove: to over 2,000 rows and down to few.
      let adds = step < 12 ? 9 : 1
      var present = model.keys.sorted { $0.lexicographicallyPrecedes($1) }
      var changes: [([UInt8], [UInt8]?)] = []
      for _ in 0..<300 {
        if Int.random(in: 0..<10, using: &random) < adds {
          let key = Self.key(using: &random)
          changes.append((key, [UInt8(step)]))
          model[key] = [UInt8(step)]
        } else if let index = present.indices.randomElement(using: &random) {
          let key = present.remove(at: index)
          changes.append((key, nil))
          model[key] = nil
        }
      }
      _ = await commit(store) { group in
        for (key, value) in changes {
          if let value { group.put(.feedback, key, value) } else { group.delete(.feedback, key) }
        }
      }
      let limit = Int.random(in: 1...400, using: &random)
      for prefix in [[], [1], [2, 7]] as [[UInt8]] {
        let expected = model.filter { $0.key.starts(with: prefix) }
          .sorted { $0.key.lexicographicallyPrecedes($1.key) }.map { [$0.key, $0.value] }
        let pages = try Self.pages(of: store, prefix: prefix, limit: limit)
        try #require(pages == expected, "seed \(seed), step \(step), limit \(limit), \(prefix)")
      }
      let some = Self.key(using: &random)
      #expect(try store.get(.feedback, some) == model[some], "seed \(seed), step \(step)")
    }
    store.close()
  }

  static func key(using random: inout SeededRandom) -> [UInt8] {
    [
      UInt8.random(in: 0..<4, using: &random), UInt8.random(in: 0..<16, using: &random),
      UInt8.random(in: 0...255, using: &random),
    ]
  }

  /// All rows with `prefix`, read `limit` at a time, each page starting after the previous one's last key.
  static func pages(
    of store: any DurableStore, prefix: [UInt8], limit: Int
  ) throws -> [[[UInt8]]] {
    var all: [[[UInt8]]] = []
    var start = prefix
    while true {
      let page = try store.rows(.feedback, prefix: prefix, from: start, limit: limit)
      all += page
      // The limit ends a test whose pages make no progress.
      guard page.count == limit, all.count < 10_000, let last = page.last else { return all }
      start = last[0] + [0]
    }
  }

  @Test("A scan of all devices' subscriptions leaves nothing of them in memory")
  func uncached() async throws {
    let scratch = Scratch()
    let store = try RocksStore(path: scratch.path)
    let value = [UInt8](repeating: 1, count: 100)
    _ = await commit(store) { group in
      for number in 0..<10_000 as Range<UInt64> {
        let key = SubscriptionRecord.key(DeviceID(number), .production)
        group.put(.channels, key: key.span, value: value.span)
      }
    }
    try store.compact(.channels)
    let before = try store.cachedBlockBytes()
    var count = 0
    try store.forEachSubscriber(from: nil) { _, _, _ in
      count += 1
      return true
    }
    #expect(count == 10_000)
    // The index of the table may be cached, but not its megabyte of rows.
    #expect(try store.cachedBlockBytes() - before < 100_000)
    // A row that is looked up is, unless it is read only once.
    let key = SubscriptionRecord.key(DeviceID(7), .production)
    let cached = try store.cachedBlockBytes()
    _ = try store.subscriptions(of: DeviceID(7), in: .production)
    #expect(try store.cachedBlockBytes() == cached)
    _ = try store.get(.channels, key: key.span)
    #expect(try store.cachedBlockBytes() > cached)
    store.close()
  }

  @Test("A scan sees the rows of its beginning, whatever is written meanwhile")
  func snapshot() throws {
    let store = MemoryStore(mode: .manual)
    var group = store.makeGroup()
    for number in UInt8(0)..<100 { group.put(.feedback, [number], [0]) }
    store.commit(group) { _ in }
    store.runCommits()
    var seen: [UInt8] = []
    let none: [UInt8] = []
    try store.scan(.feedback, prefix: none.span) { key, value in
      if key[0] == 10 {
        var group = store.makeGroup()
        for number in UInt8(0)..<200 { group.put(.feedback, [number], [1]) }
        group.delete(.feedback, [50])
        store.commit(group) { _ in }
        store.runCommits()
      }
      seen.append(key[0])
      return value[0] == 0
    }
    #expect(seen == Array(0..<100))
    #expect(try store.rows(.feedback, prefix: []).count == 199)
  }
}

@Suite("Stored notifications of several devices")
struct MailboxScanTests {
  /// Rows for the devices 0, 3, 6 … below 3,000: one, two or three topics, on disk in tables and in the log.
  private func fill(_ store: any DurableStore, _ compact: () throws -> Void) async throws {
    for half in 0..<2 {
      let failure = await commit(store) { group in
        for number in stride(from: UInt64(0), to: 3000, by: 3) where Int(number) % 2 == half {
          for app in 0...UInt32(number % 9 / 3) {
            let key = Self.key(number, app).encoded()
            group.put(.mailbox, key: key.span, value: [UInt8(number % 256)].span)
          }
        }
      }
      #expect(failure == nil)
      if half == 0 { try compact() }
    }
  }

  private static func key(_ number: UInt64, _ app: UInt32) -> MailboxKey {
    // Adjacent numbers are far apart in the order of the keys, and vice versa.
    MailboxKey(
      device: DeviceID(number.byteSwapped), topic: TopicKey(app: AppID(app)),
      environment: .production)
  }

  private func check(_ store: any DurableStore) throws {
    var asked = (0..<3100 as Range<UInt64>).map { DeviceID($0.byteSwapped) }
    asked.sort { $0.rawValue < $1.rawValue }
    // A device may be requested twice, for example in both environments.
    asked.insert(asked[10], at: 10)
    var found: [Int: [MailboxKey]] = [:]
    try store.scanMailbox(of: asked) { index, key, value in
      let place = try? MailboxKey(decoding: key)
      #expect(place?.device == asked[index])
      #expect(bytes(value) == [UInt8(asked[index].rawValue.byteSwapped % 256)])
      if let place { found[index, default: []].append(place) }
    }
    for (index, device) in asked.enumerated() {
      let number = device.rawValue.byteSwapped
      let expected =
        number < 3000 && number % 3 == 0
        ? (0...UInt32(number % 9 / 3)).map { Self.key(number, $0) } : []
      #expect(found[index, default: []] == expected)
    }
  }

  @Test("Each device gets its own rows from the disk")
  func onDisk() async throws {
    let scratch = Scratch()
    let store = try RocksStore(path: scratch.path)
    try await fill(store) { try store.compact(.mailbox) }
    try check(store)
    store.close()
  }

  @Test("Each device gets its own rows from memory")
  func inMemory() async throws {
    let store = MemoryStore()
    try await fill(store) {}
    try check(store)
  }
}
