import ApusModel
import PostgresServer
import Testing

@testable import ApusStore

@Suite("Dividing the rows of a cluster's devices")
struct PostgresDivisionTests {
  private let scratch = Scratch()
  private let database: ClusterDatabase

  /// The tables of one part.
  init() throws {
    try PostgresStore(scratch.database(), .forTests).close()
    database = try ClusterDatabase(scratch.database(), node: "a", purpose: "test")
    _ = try database.makeDirectory(proof: [], parts: 1)
  }

  @discardableResult
  private func sql(_ text: String) throws -> [String] {
    try PostgresServer.shared.sql(text, in: scratch.databaseName)
  }

  /// Device n is in part n modulo the number of parts, and the last byte of a token is its device.
  @discardableResult
  private func divide(into parts: Int) throws -> PostgresDivision.Report {
    var options = PostgresOptions.forTests
    options.node = "a"
    return try PostgresDivision(
      scratch.database(), options, into: parts,
      place: { device, count in Int(device.rawValue) % count },
      device: { $0.words.3 & 0xff == 0xff ? nil : DeviceID($0.words.3 & 0xff) }
    ).run()
  }

  private func put(_ part: Int, _ rows: [(StoreFamily, [UInt8], [UInt8])]) throws {
    var options = PostgresOptions.forTests
    (options.node, options.part) = ("a", part)
    let store = try PostgresStore(scratch.database(), options)
    defer { store.close() }
    var group = store.makeGroup()
    for (family, key, value) in rows { group.put(family, key, value) }
    try store.write(&group)
  }

  private func rows(_ family: StoreFamily, of part: Int) throws -> [[UInt8]] {
    var found: [[UInt8]] = []
    try PostgresFollower(scratch.database(), node: "a", part: part).scan(family, prefix: Span()) {
      found.append(bytes($0) + bytes($1))
      return true
    }
    return found
  }

  private static func device(_ number: UInt8) -> [UInt8] { [0, 0, 0, 0, 0, 0, 0, number] }

  private static func token(_ number: UInt8) -> [UInt8] {
    [UInt8](repeating: 7, count: 31) + [number]
  }

  @Test(
    "Each row about a device is in the device's part afterwards, as it was, and all others stay")
  func rows() throws {
    // Of devices 1 to 4, by hand: the device, two slots of a topic, the subscriptions in one environment, and a dead
    // token by time and by itself.
    var all: [(StoreFamily, [UInt8], [UInt8])] = []
    for number in UInt8(1)...4 {
      let device = Self.device(number)
      all += [
        (.devices, device + [1], [number]), (.mailbox, device + [0, 0, 0, 1, 0], [number, 1]),
        (.mailbox, device + [0, 0, 0, 1, 0, 1], [number, 2]),
        (.channels, [2] + device + [1], [1]),
        (.feedback, [0, 0, 0, 0, 1, 0] + Self.device(9) + Self.token(number), [1]),
        (.feedback, [1, 0, 0, 0, 1, 0] + Self.token(number), [1] + Self.device(9)),
      ]
    }
    let staying: [(StoreFamily, [UInt8], [UInt8])] = [
      (.channels, [3, 0, 0, 0, 1], [1]), (.relay, [1, 1], [1]), (.ledger, [0, 0, 1], [1]),
      (.meta, [1, 1], [1]),
      // A token that nobody was issued.
      (.feedback, [1, 0, 0, 0, 1, 0] + Self.token(0xff), [1] + Self.device(9)),
    ]
    try put(0, all + staying)
    #expect(try divide(into: 2) == .init(moved: 12, rows: 24))
    #expect(try divide(into: 3) == .init(moved: 18, rows: 24))
    for family in StoreFamily.allCases where family != .meta {
      for part in 0..<3 {
        let wanted = all.enumerated().filter { (1 + $0.offset / 6) % 3 == part }.map(\.element)
        let own = (wanted + (part == 0 ? staying : [])).filter { $0.0 == family }
          .map { $0.1 + $0.2 }
        #expect(
          Set(try rows(family, of: part)) == Set(own), "\(family) of part \(part)")
      }
    }
    #expect(try rows(.meta, of: 0).contains([1, 1, 1]))
    #expect(try database.directory()?.parts == 3)
    // Devices 1 to 3 stay, and 4 goes from part 1 to part 0.
    #expect(try divide(into: 4) == .init(moved: 12, rows: 24))
    #expect(try rows(.devices, of: 0) == [Self.device(4) + [1, 4]])
    #expect(try rows(.devices, of: 3) == [Self.device(3) + [1, 3]])
  }

  private static let channel = [UInt8](repeating: 3, count: 16)
  private static let channelRow: (StoreFamily, [UInt8], [UInt8]) = (
    .channels, [0, 0x0e, 0, 0, 0, 1] + channel, [1, 1, 10, 0, 0, 0, 0, 0, 0, 0, 1]
  )

  /// What the channel keeps: its order, the id (16 times 9), accepted, kept until, priority, payload.
  private static func broadcast(_ order: UInt8) -> (StoreFamily, [UInt8], [UInt8]) {
    (
      .channels, [1, 0x0e, 0, 0, 0, 1] + channel,
      [1] + device(order) + [UInt8](repeating: 9, count: 16) + device(1) + device(2) + [
        10, 0x7b, 0x7d,
      ]
    )
  }

  /// A device's subscription: up to which broadcast it has all, the one that it was sent last, and how often.
  private static func subscription(
    _ number: UInt8, newest: UInt8, tried: UInt8 = 0, _ count: UInt8 = 0
  ) -> (StoreFamily, [UInt8], [UInt8]) {
    (
      .channels, [2] + device(number) + [1],
      [1] + channel + device(newest) + device(tried) + [count]
    )
  }

  private func expectChannels(
    of part: Int, _ rows: [(StoreFamily, [UInt8], [UInt8])],
    sourceLocation: SourceLocation = #_sourceLocation
  ) throws {
    #expect(
      try self.rows(.channels, of: part) == rows.map { $0.1 + $0.2 }, sourceLocation: sourceLocation
    )
  }

  @Test("New parts know the channels, and devices have the same broadcasts as before")
  func channels() throws {
    // Device 1 has it, and device 3 was sent it twice.
    try put(
      0,
      [
        Self.channelRow, Self.broadcast(200), Self.subscription(1, newest: 200),
        Self.subscription(3, newest: 199, tried: 200, 2),
      ])
    try divide(into: 2)
    try expectChannels(
      of: 1,
      [
        Self.channelRow, Self.broadcast(200), Self.subscription(1, newest: 200),
        Self.subscription(3, newest: 199, tried: 200, 2),
      ])
    // Part 1 has had it as the seventh of its own.
    try put(
      1,
      [
        Self.broadcast(7), Self.subscription(1, newest: 7),
        Self.subscription(3, newest: 6, tried: 7, 1), Self.subscription(5, newest: 7),
      ])
    try divide(into: 3)
    try expectChannels(
      of: 0,
      [
        Self.channelRow, Self.broadcast(200), Self.subscription(3, newest: 199, tried: 200, 1),
      ])
    try expectChannels(
      of: 1, [Self.channelRow, Self.broadcast(7), Self.subscription(1, newest: 7)])
    try expectChannels(
      of: 2, [Self.channelRow, Self.broadcast(200), Self.subscription(5, newest: 200)])
  }

  @Test("A device needs what its new part keeps and its old one never had")
  func laterBroadcast() throws {
    func kept(_ id: UInt64, _ order: UInt64) throws -> KeptBroadcasts {
      var kept = KeptBroadcasts()
      var value: [UInt8] = [1]
      for number in [order, id, id] { value.append(bigEndian: number) }
      let key = Self.broadcast(1).1
      try kept.add(key: key.span, head: value.span)
      return kept
    }
    let channel = ChannelID(high: 0x0303_0303_0303_0303, low: 0x0303_0303_0303_0303)
    let record = SubscriptionRecord([
      .init(channel: channel, newestOrder: 500, triedOrder: 500, triedCount: 3)
    ])
    let needed = SubscriptionRecord([.init(channel: channel, newestOrder: 8)])
    #expect(try kept(1, 500).moved(record, to: kept(2, 9)) == needed)
    #expect(KeptBroadcasts().moved(record, to: try kept(2, 9)) == needed)
    // Nothing is kept there, and what comes has a higher order than any before.
    #expect(try kept(1, 500).moved(record, to: KeptBroadcasts()) == record)
    #expect(KeptBroadcasts().moved(record, to: try kept(2, 0)).subscriptions[0].newestOrder == 0)
  }

  @Test("Every part goes on after the highest number that was assigned in any")
  func numbers() throws {
    let (ceiling, first) = (Array("order-ceiling".utf8), Array("first-generation".utf8))
    try put(0, [(.meta, ceiling, [1, 0, 0, 0, 0, 0, 0, 1, 0]), (.meta, first, [1, 0, 5])])
    try divide(into: 2)
    try put(1, [(.meta, ceiling, [1, 0, 0, 0, 0, 0, 0, 2, 0])])
    try divide(into: 3)
    for part in 0..<3 {
      #expect(
        Set(try rows(.meta, of: part))
          == [ceiling + [1, 0, 0, 0, 0, 0, 0, 2, 0], first + [1, 0, 5]])
    }
  }

  @Test("What moves to a part without counters is not counted there again")
  func counters() throws {
    // Worker 1 has counted for topic 1 in production that one notification waits.
    let key = Array("counters/".utf8) + [0, 1, 0, 0, 0, 1, 0]
    let value: [UInt8] = [1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0xff, 10, 0, 0, 0, 0, 0, 0, 0, 1]
    try put(0, [(.meta, key, value)])
    try divide(into: 2)
    // Worker 0 has counted none.
    #expect(
      try rows(.meta, of: 1).contains(
        Array("counters/".utf8) + [0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]))
    #expect(try rows(.meta, of: 0).contains(key + value))
    #expect(try rows(.meta, of: 0).count { $0.starts(with: Array("counters/".utf8)) } == 1)
  }

  @Test("Many rows are moved in several steps")
  func many() throws {
    try sql(
      "INSERT INTO apus.devices SELECT int8send(g) || '\\x00'::bytea, '\\x01' FROM generate_series(1, 10001) AS g"
    )
    #expect(try divide(into: 2) == .init(moved: 5001, rows: 10_001))
    #expect(try sql("SELECT count(*) FROM apus.devices") == ["5000"])
    #expect(try sql("SELECT count(*) FROM apus_1.devices") == ["5001"])
  }

  private func refusal(into parts: Int) throws -> String {
    let error = #expect(throws: StoreError.self) { try divide(into: parts) }
    #expect(try database.directory()?.parts == 1)
    return "\(try #require(error))"
  }

  @Test("Nothing is divided while a process has a lease, and nobody takes one meanwhile")
  func leases() throws {
    var options = PostgresOptions.forTests
    options.node = "b"
    let store = try PostgresStore(scratch.database(), options)
    #expect(try refusal(into: 2).contains("the node b did not give its lease back"))
    store.close()
    // It works after somebody else had the shared files locked, and once.
    #expect(try database.lockDirectory()?.parts == 1)
    try database.giveUp()
    try divide(into: 2)
    let error = #expect(throws: StoreError.self) { try divide(into: 2) }
    #expect("\(try #require(error))".contains("divided into 2 parts already"))
  }

  @Test("A division that fails changes nothing")
  func failing() throws {
    try put(0, [(.devices, Self.device(1) + [0], [1]), (.devices, Self.device(3) + [1], [3])])
    var options = PostgresOptions.forTests
    (options.node, options.part) = ("a", 1)
    try PostgresStore(scratch.database(), options).close()
    // In the way of the last one.
    try sql("INSERT INTO apus_1.devices VALUES ('\\x000000000000000301', '\\x09')")
    #expect(try refusal(into: 2).contains("duplicate key"))
    #expect(try rows(.devices, of: 0) == [Self.device(1) + [0, 1], Self.device(3) + [1, 3]])
    try put(0, [(.devices, [1, 2], [1])])
    #expect(try refusal(into: 2).contains("ends inside its field 'device'"))
  }
}
