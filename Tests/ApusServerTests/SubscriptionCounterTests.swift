import ApusAdmin
import ApusCore
import ApusLog
import ApusModel
import ApusRandom
import ApusStore
import ApusTesting
import Glibc
import Testing

@testable import ApusServer

/// A worker whose subscriptions change as a plain model says.
private final class CountedWorker {
  let directory: TestDirectory
  var store: MemoryStore
  var bench: SteppedBench
  var records: [DeviceKey: SubscriptionRecord] = [:]
  var channels: [Channel] = []
  /// Whether no deletion or fault has left the number of subscribers open.
  var isExact = true
  private var lastChannel: UInt64 = 0

  init() throws {
    directory = try TestDirectory()
    store = MemoryStore(mode: .manual)
    bench = try SteppedBench(.courier, directory, store: store)
    commit()
  }

  var register: ChannelRegister { bench.worker.context.shared.channels }
  var rows: SubscriptionRows { bench.worker.devices.subscriptions.rows }
  var census: ChannelCensus? { ChannelMetrics(store, register, log: Log()).census() }

  func commit() {
    repeat { bench.run() } while store.runCommits() > 0
  }

  func advance(milliseconds: UInt64) {
    bench.advance(toMilliseconds: bench.network.nowMilliseconds + milliseconds)
  }

  func createChannel(_ random: inout SeededRandom) throws {
    lastChannel += 1
    let channel = Channel(
      id: ChannelID(high: 1, low: lastChannel), app: AppID(UInt32(7 + random.below(2))),
      environment: random.below(2) == 0 ? .production : .development, storage: .none,
      createdMilliseconds: 0)
    try register.create(channel) { _ in }
    commit()
    channels.append(channel)
  }

  func deleteChannel(_ random: inout SeededRandom) {
    guard !channels.isEmpty else { return }
    register.delete(channels.remove(at: random.below(channels.count))) { _ in }
    commit()
    isExact = false
  }

  /// A device subscribes to other channels than before.
  func change(_ random: inout SeededRandom) throws {
    let key = DeviceKey(
      id: DeviceID(random.next() % 40),
      environment: random.below(2) == 0 ? .production : .development)
    let old = try rows.record(of: key)
    #expect(old == records[key] ?? SubscriptionRecord())
    let wanted = channels.filter { $0.environment == key.environment && random.below(3) == 0 }
    let kept = random.below(2) == 0 ? [] : old.subscriptions.filter { _ in random.below(2) == 0 }
    let new = SubscriptionRecord(
      kept
        + wanted.filter { channel in !kept.contains { $0.channel == channel.id } }
        .map { .init(channel: $0.id) })
    rows.write(new, replacing: old, of: key) { _ in }
    records[key] = new
  }

  func restart() throws {
    commit()
    store = store.afterPowerLoss()
    bench = try SteppedBench(.courier, directory, store: store)
    rows.counter.pageSize = 7
    isExact = true
  }

  /// Until everything is counted, a recount included.
  func settle() {
    commit()
    advance(milliseconds: 61_000)
    for _ in 0..<200 { advance(milliseconds: 1) }
    isExact = true
  }

  func expectModel(_ comment: Comment) throws {
    let census = try #require(census, comment)
    var expected = ChannelCensus()
    var subscribers: [ChannelCensus.App: Set<DeviceKey>] = [:]
    for channel in channels {
      let devices = records.filter { entry in
        entry.value.subscriptions.contains { $0.channel == channel.id }
      }
      expected.add(ChannelFigures(subscriptions: UInt64(devices.count)), of: channel)
      let app = ChannelCensus.App(app: channel.app, environment: channel.environment)
      subscribers[app, default: []].formUnion(devices.keys)
    }
    for (app, devices) in subscribers { expected.set(subscribers: UInt64(devices.count), of: app) }
    #expect(census.channels == expected.channels, comment)
    if isExact { #expect(census.apps == expected.apps, comment) }
  }
}

@Suite("Subscriptions are counted as records change")
struct SubscriptionCounterTests {
  @Test(
    "Counts agree with a plain model, through deletions, faults and restarts, while pages are read",
    arguments: [UInt64.random(in: 1...(.max))])
  func model(seed: UInt64) throws {
    var random = SeededRandom(seed: seed)
    let worker = try CountedWorker()
    for _ in 0..<5 { try worker.createChannel(&random) }
    var exactCount = 0
    for _ in 0..<3000 {
      switch random.below(40) {
      case 0..<25: try worker.change(&random)
      case 25..<28: worker.store.runCommits(limit: random.below(4))
      case 28..<30: worker.bench.run()
      case 30..<35: worker.advance(milliseconds: 1)
      case 35: worker.advance(milliseconds: UInt64(random.below(61_000)))
      case 36: if worker.channels.count < 12 { try worker.createChannel(&random) }
      case 37: if random.below(3) == 0 { worker.deleteChannel(&random) }
      case 38:
        guard random.below(5) == 0 else { continue }
        worker.commit()
        let before = worker.records
        worker.store.failNextCommits(1, with: .unavailable)
        try worker.change(&random)
        worker.commit()
        worker.records = before
        worker.settle()
      default:
        guard random.below(5) == 0 else { continue }
        try worker.restart()
        // The reading begins after the restart, and goes on between the changes.
        #expect(worker.census == nil || worker.channels.isEmpty)
        for _ in 0..<10 { try worker.change(&random) }
        if random.below(2) == 0 { worker.settle() }
      }
      guard worker.census != nil else { continue }
      if worker.isExact { exactCount += 1 }
      try worker.expectModel("seed \(seed)")
    }
    worker.settle()
    try worker.expectModel("seed \(seed)")
    #expect(exactCount > 100, "seed \(seed)")
  }

  @Test("What a service has counted after a start, it does not read again")
  func readOnce() throws {
    let store = MemoryStore()
    var service = try BroadcastService(nil, .init { $0.store = store })
    let channel = try service.createChannel()
    let devices = [try service.connect(), try service.connect()]
    for device in devices { try device.subscribe(channel) }
    try devices[0].subscribe(try service.createChannel())
    func figures() throws -> ChannelFigures {
      let deadline = Deadline(seconds: 20)
      while service.service.service.channelCensus() == nil, deadline.remainingMilliseconds > 0 {
        usleep(1000)
      }
      let census = try #require(service.service.service.channelCensus())
      return try #require(census.apps.values.first)
    }
    let expected = ChannelFigures(subscriptions: 3, subscribers: 2)
    #expect(try figures() == expected)
    let copy = store.afterPowerLoss()
    service.service.stop()
    service = try BroadcastService(service.directory, .init { $0.store = copy })
    defer { service.service.stop() }
    #expect(try figures() == expected)
    // A second look would find nothing.
    var group = copy.makeGroup()
    try copy.forEachSubscriber(from: nil) { device, environment, _ in
      let key = SubscriptionRecord.key(device, environment)
      group.delete(.channels, key: key.span)
      return true
    }
    #expect(group.count == 2)
    copy.commit(group) { _ in }
    let deadline = Deadline(seconds: 20)
    while copy.pendingCommitCount > 0, deadline.remainingMilliseconds > 0 { usleep(1000) }
    service.service.service.writeChannelMetrics(nowSeconds: 86_400)
    #expect(try figures() == expected)
  }
}
