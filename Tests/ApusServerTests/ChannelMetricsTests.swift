import ApusAdmin
import ApusCore
import ApusDirectory
import ApusLog
import ApusModel
import ApusStore
import ApusTesting
import ApusWire
import Glibc
import Testing

@testable import ApusServer

/// "Exporting broadcast push notification metrics".
@Suite("Figures of channels")
struct ChannelMetricsTests {
  private let store = MemoryStore()

  private func rows(
    _ key: ChannelDayRecord.Key
  ) throws -> ChannelFigures? { try store.channelDay(key) }

  /// The census, once it says what is expected.
  private func expectSoon(
    _ service: BroadcastService, _ expected: (ChannelCensus) -> Bool
  ) throws -> ChannelCensus {
    let deadline = Deadline(seconds: 20)
    while true {
      let census = try #require(service.service.service.channelCensus())
      if expected(census) || deadline.remainingMilliseconds == 0 { return census }
      usleep(50_000)
    }
  }

  @Test("Published, delivered, subscriptions and subscribers are counted, and written for each day")
  func counted() throws {
    let service = try BroadcastService(nil, .init { $0.store = store })
    defer { service.service.stop() }
    let channels = try (0..<2).map { _ in try service.createChannel() }
    let (both, one) = (try service.connect(), try service.connect())
    try both.subscribe(channels[0], channels[1])
    try one.subscribe(channels[0])
    let provider = try service.provider()
    for _ in 0..<3 {
      #expect(try provider.broadcast(channels[0]).status == 200)
      for device in [both, one] { _ = try device.broadcast() }
    }
    one.client.tls.close()
    let census = try expectSoon(service) { $0.channels.values.contains { $0.delivered == 6 } }
    let ids = try channels.map { text in
      let bytes = try channelBytes(text)
      let id = ChannelID(bytes: bytes.span)
      return try #require(id)
    }
    #expect(
      census.channels[ids[0]] == ChannelFigures(published: 3, delivered: 6, subscriptions: 2))
    #expect(census.channels[ids[1]] == ChannelFigures(subscriptions: 1))
    let app = try #require(census.apps.keys.first)
    #expect(
      census.apps[app]
        == ChannelFigures(published: 3, delivered: 6, subscriptions: 3, subscribers: 2))

    let day: Int64 = 20_000
    service.service.service.writeChannelMetrics(nowSeconds: day * 86_400 + 5)
    func key(_ day: Int64, _ channel: ChannelID?) -> ChannelDayRecord.Key {
      .init(
        day: UInt32(day), app: app.app, environment: app.environment, channel: channel)
    }
    func written(_ key: ChannelDayRecord.Key) throws -> ChannelFigures? {
      // Behind what was submitted.
      let deadline = Deadline(seconds: 20)
      while try rows(key) == nil, deadline.remainingMilliseconds > 0 { usleep(10_000) }
      return try rows(key)
    }
    #expect(
      try written(key(day, nil))
        == ChannelFigures(published: 3, delivered: 6, subscriptions: 3, subscribers: 2))
    #expect(
      try written(key(day, ids[0]))
        == ChannelFigures(published: 3, delivered: 6, subscriptions: 2))

    // The next day has what came since, and the subscriptions of channels on which nothing happened.
    #expect(try provider.broadcast(channels[1]).status == 200)
    _ = try both.broadcast()
    _ = try expectSoon(service) { $0.channels[ids[1]]?.delivered == 1 }
    service.service.service.writeChannelMetrics(nowSeconds: (day + 1) * 86_400)
    #expect(
      try written(key(day + 1, ids[1]))
        == ChannelFigures(published: 1, delivered: 1, subscriptions: 1))
    #expect(try written(key(day + 1, ids[0])) == ChannelFigures(subscriptions: 2))
    #expect(
      try written(key(day + 1, nil))
        == ChannelFigures(published: 1, delivered: 1, subscriptions: 3, subscribers: 2))
  }

  @Test("Rows are written according to the layout, and read back")
  func layout() throws {
    let id = ChannelID(high: 0x2021_2223_2425_2627, low: 0x2829_2a2b_2c2d_2e2f)
    let key = ChannelDayRecord.Key(
      day: 20_000, app: AppID(0x0a0b_0c0d), environment: .development, channel: id)
    let bytes = hex(
      "03 00004e20 09 0a0b0c0d 20 21 22 23 24 25 26 27 28 29 2a 2b 2c 2d 2e 2f")
    #expect(ChannelDayRecord.encode(key) == bytes)
    #expect(try ChannelDayRecord.decode(key: bytes.span) == key)
    let record = ChannelDayRecord(
      ChannelFigures(published: 1, delivered: 2, subscriptions: 3, subscribers: 4))
    let value = hex("01 0000000000000001 0000000000000002 0000000000000003 0000000000000004")
    #expect(record.encoded() == value)
    #expect(try ChannelDayRecord(decoding: value.span) == record)
    for count in 0..<value.count {
      #expect(throws: RecordError.self) {
        try ChannelDayRecord(decoding: Array(value[..<count]).span)
      }
    }
    for count in 0..<bytes.count {
      #expect(throws: RecordError.self) {
        try ChannelDayRecord.decode(key: Array(bytes[..<count]).span)
      }
    }
  }

  @Test("Days are kept for half a year, and totals outlive the service")
  func kept() throws {
    let store = MemoryStore(mode: .manual)
    let register = try ChannelRegister(reading: store)
    let channel = Channel(
      id: ChannelID(high: 1, low: 2), app: AppID(7), environment: .production, storage: .none,
      createdMilliseconds: 0)
    try register.create(channel) { _ in }
    store.runCommits()
    let metrics = ChannelMetrics(store, register, log: Log())
    for day in [1000, 1001, 1184, 1185] as [Int64] {
      register.add(delivered: 1, to: channel.id)
      metrics.write(nowSeconds: day * 86_400)
      store.runCommits()
    }
    var days: [UInt32] = []
    try store.forEachChannelDay { key, _ in if key.channel == nil { days.append(key.day) } }
    #expect(days == [1184, 1185])
    let again = try ChannelRegister(reading: store)
    #expect(again.entry(channel.id)?.deliveredCount == 4)
    #expect(again.entry(channel.id)?.publishedCount == 0)
  }
}
