import ApusCore
import ApusModel
import ApusRandom
import Testing

@Suite("Random walks over resends")
struct RememberedWalkTests {
  @Test(
    "Through errors, broken connections and restarts, each notification goes upstream once",
    arguments: 0..<200 as Range<UInt64>)
  func walk(seed: UInt64) {
    var world = ResendWorld(seed: seed)
    for _ in 0..<600 where world.fault == nil { world.step() }
    world.finish()
    #expect(world.fault == nil, "seed \(seed)")
    #expect(world.rows.isEmpty, "seed \(seed)")
    #expect(world.sequences.count == 0, "seed \(seed)")
  }

  @Test("The walks suppress resends, and restart in the middle of them")
  func covered() {
    var (suppressed, restored) = (0, 0)
    for seed in 0..<20 as Range<UInt64> {
      var world = ResendWorld(seed: seed)
      for _ in 0..<600 { world.step() }
      suppressed += world.suppressedCount
      restored += world.restoredCount
    }
    #expect(suppressed > 500)
    #expect(restored > 50)
  }
}

/// Senders with several connections each, a service that learns late what is bad, and the rows of its store.
private struct ResendWorld {
  private struct Sent {
    var number: UInt64
    var original: NotificationID
  }

  private struct Connection {
    let sender: RelayDigest
    /// Whether its sender resends the refused notification as well, once.
    let resendsRefused: Bool
    var matching: RememberedSequences.Matching
    var sent: [Sent] = []
    var queue: [UInt64] = []
  }

  private(set) var fault: String?
  private(set) var rows: [RememberedNotification.Place: RememberedNotification] = [:]
  private(set) var sequences = RememberedSequences()
  private(set) var suppressedCount = 0
  private(set) var restoredCount = 0
  private var random: SeededRandom
  private var connections: [Connection] = []
  private var nextNumber: UInt64 = 1
  private var nextID: UInt64 = 1
  /// The id under which each went upstream.
  private var upstream: [UInt64: NotificationID] = [:]
  private var resentRefused: Set<UInt64> = []
  private var nowSeconds: Int64 = 1_000_000

  init(seed: UInt64) {
    random = SeededRandom(seed: seed)
    for number in 0..<4 as Range<UInt64> {
      let sender = RelayDigest(high: 0, low: number / 2)
      connections.append(
        Connection(
          sender: sender, resendsRefused: number % 2 == 0,
          matching: RememberedSequences.Matching(sender: sender)))
    }
  }

  private static func isBad(_ number: UInt64) -> Bool { number % 9 == 4 }

  private func digest(_ number: UInt64) -> RelayDigest { RelayDigest(high: 3, low: number) }

  mutating func step() {
    let index = random.below(connections.count)
    nowSeconds += random.chance(1, in: 20) ? 1 : 0
    switch random.below(100) {
    case 0..<20: enqueue(index)
    case 20..<80: send(index)
    case 80..<94: refuse(index)
    case 94..<98: reconnect(index)
    case 98: sequences.expire(nowSeconds: nowSeconds)
    default: restart()
    }
    deleteForgotten()
  }

  /// Everything is sent, and all that is bad is refused.
  mutating func finish() {
    for index in connections.indices {
      for _ in 0..<10_000 where !connections[index].queue.isEmpty || firstBad(index) != nil {
        send(index)
        if connections[index].queue.isEmpty { refuse(index) }
        deleteForgotten()
      }
    }
    for number in 1..<nextNumber where upstream[number] == nil && fault == nil {
      fault = "\(number) did not go upstream"
    }
  }

  private mutating func enqueue(_ index: Int) {
    for _ in 0..<(1 + random.below(8)) {
      connections[index].queue.append(nextNumber)
      nextNumber += 1
    }
  }

  private mutating func send(_ index: Int) {
    for _ in 0..<(1 + random.below(6)) where !connections[index].queue.isEmpty {
      let number = connections[index].queue.removeFirst()
      let original = accept(number, on: index)
      connections[index].sent.append(Sent(number: number, original: original))
    }
  }

  private mutating func accept(_ number: UInt64, on index: Int) -> NotificationID {
    switch match(number, on: index) {
    case .suppressed(let original, let place):
      suppressedCount += 1
      if upstream[number] != original { fault = "\(number) has another's id" }
      if rows.removeValue(forKey: place) == nil { fault = "\(number) had no row" }
      return original
    case .new:
      if upstream[number] != nil, !Self.isBad(number) { fault = "\(number) went upstream twice" }
      let id = NotificationID(high: 1, low: nextID)
      nextID += 1
      upstream[number] = id
      return id
    }
  }

  private mutating func match(_ number: UInt64, on index: Int) -> RememberedSequences.Match {
    guard sequences.isMatching(&connections[index].matching) else { return .new }
    let digest = digest(number)
    return sequences.match(digest, on: &connections[index].matching, nowSeconds: nowSeconds)
  }

  private func firstBad(_ index: Int) -> Int? {
    connections[index].sent.firstIndex { Self.isBad($0.number) }
  }

  /// Upstream's answer to the first bad notification comes: the error packet.
  private mutating func refuse(_ index: Int) {
    guard let place = firstBad(index) else { return }
    let refused = connections[index].sent[place].number
    let after = connections[index].sent[(place + 1)...]
    let entries = after.map {
      RememberedSequences.Entry(digest: digest($0.number), original: $0.original)
    }
    let id = sequences.remember(
      entries, after: digest(refused), on: &connections[index].matching, nowSeconds: nowSeconds)
    if let id { sequences.forEachRow(of: id) { rows[$0.place] = $0 } }
    let resends = connections[index].resendsRefused && resentRefused.insert(refused).inserted
    connections[index].queue =
      (resends ? [refused] : []) + after.map(\.number)
      + connections[index].queue
    connect(index)
  }

  /// The sender closes a connection about which nothing is left to say, and goes on with another.
  private mutating func reconnect(_ index: Int) {
    guard firstBad(index) == nil else { return }
    sequences.end(&connections[index].matching)
    connect(index)
  }

  private mutating func connect(_ index: Int) {
    connections[index].sent = []
    connections[index].matching = RememberedSequences.Matching(sender: connections[index].sender)
  }

  /// The service is killed: senders take what they have sent for accepted.
  private mutating func restart() {
    deleteForgotten()
    sequences = RememberedSequences()
    let stored = rows.values.sorted {
      let (left, right) = ($0.place, $1.place)
      return (left.sender.low, left.sequence, left.index)
        < (right.sender.low, right.sequence, right.index)
    }
    for row in stored { sequences.restore(row) }
    let count = stored.count { $0.original != nil }
    restoredCount += count
    if sequences.count != count { fault = "\(sequences.count) of \(count) rows were restored" }
    for index in connections.indices { connect(index) }
  }

  private mutating func deleteForgotten() {
    while let id = sequences.nextForgotten() {
      rows = rows.filter {
        $0.key.sender != id.sender || $0.key.sequence != id.number
      }
    }
  }
}
