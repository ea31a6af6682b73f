package import ApusAdmin
import ApusCore
import ApusLog
import ApusLoop
import ApusModel
import ApusStore
import Synchronization

/// Counts what happens on channels, and keeps it for each day: published, delivered, subscriptions, subscribers.
///
/// The names are those of "Exporting broadcast push notification metrics". Subscriptions are those of all devices,
/// connected or not.
package final class ChannelMetrics: Sendable {
  private struct Written {
    var counts: [ChannelID: ChannelFigures] = [:]
    var day: UInt32 = 0
  }

  private let store: any DurableStore
  private let register: ChannelRegister
  private let log: Log
  /// What the rows in the store have.
  private let written = Mutex(Written())

  private static let keptDays: UInt32 = 183

  init(_ store: any DurableStore, _ register: ChannelRegister, log: Log) {
    self.store = store
    self.register = register
    self.log = log
    written.withLock { written in
      for entry in register.entries() { written.counts[entry.channel.id] = entry.figures(0) }
    }
  }

  /// The figures of every channel and app as of now; nil in the first moments after a start, while subscriptions are
  /// being counted. Takes no longer with more of them.
  package func census() -> ChannelCensus? {
    let (census, isComplete) = known()
    return isComplete ? census : nil
  }

  /// What has been counted, and whether that is all.
  private func known() -> (census: ChannelCensus, isComplete: Bool) {
    let (counts, isComplete) = register.subscriptionCounts.sum()
    var census = ChannelCensus()
    for entry in register.entries() {
      let count = UInt64(clamping: counts.subscriptions[entry.number] ?? 0)
      census.add(entry.figures(count), of: entry.channel)
    }
    for (app, count) in counts.subscribers {
      census.set(subscribers: UInt64(clamping: count), of: app)
    }
    return (census, isComplete)
  }

  /// Writes each minute, on the thread of a loop that may wait for the store.
  func start(on loop: EventLoop) -> LoopTimer {
    let timer = LoopTimer(loop: loop) { [self] in
      write(nowSeconds: EventLoop.wallClockMilliseconds() / 1000)
    }
    timer.start(afterMilliseconds: 60_000, repeatMilliseconds: 60_000)
    return timer
  }

  /// Writes what has changed since the last time. Called each minute, by one thread at a time; what a kill loses is at
  /// most that.
  package func write(nowSeconds: Int64) {
    do throws(StoreError) {
      let day = UInt32(clamping: nowSeconds / 86_400)
      let (census, isComplete) = known()
      let before = written.withLock { $0 }
      guard
        let group = try group(of: census, isComplete: isComplete, since: before, day: day)
      else { return }
      store.commit(group) { [self] error in
        if let error { return note(error) }
        written.withLock { $0 = Written(counts: census.channels, day: day) }
      }
    } catch {
      note(error)
    }
  }

  private func note(_ error: StoreError) {
    log(.warning, "the figures of channels are not written", .text("reason", "\(error)"))
  }

  /// Nil if nothing has changed.
  private func group(
    of census: ChannelCensus, isComplete: Bool, since before: Written, day: UInt32
  ) throws(StoreError) -> WriteGroup? {
    var group = store.makeGroup()
    var changes: [ChannelCensus.App: ChannelFigures] = [:]
    for entry in register.entries() {
      let id = entry.channel.id
      guard let now = census.channels[id] else { continue }
      let old = before.counts[id] ?? ChannelFigures()
      guard now != old || day != before.day && now.subscriptions > 0 else { continue }
      let place = ChannelCensus.App(
        app: entry.channel.app, environment: entry.channel.environment)
      let change = ChannelFigures(
        published: now.published &- old.published, delivered: now.delivered &- old.delivered)
      changes[place, default: ChannelFigures()].add(change)
      func key(_ day: UInt32) -> ChannelDayRecord.Key {
        .init(day: day, app: place.app, environment: place.environment, channel: id)
      }
      try put(key(day), change, isComplete ? now : nil, into: &group)
      group.put(
        key(ChannelDayRecord.Key.total),
        ChannelFigures(published: now.published, delivered: now.delivered))
    }
    for (place, change) in changes {
      guard let now = census.apps[place] else { continue }
      try put(
        .init(day: day, app: place.app, environment: place.environment, channel: nil), change,
        isComplete ? now : nil, into: &group)
    }
    if before.day != 0, day > before.day { try removeOldDays(before: day, from: &group) }
    if group.count == 0 { return nil }
    return group
  }

  /// Adds `change` to a day's row, and sets its subscriptions, provided that they are known.
  private func put(
    _ key: ChannelDayRecord.Key, _ change: ChannelFigures, _ now: ChannelFigures?,
    into group: inout WriteGroup
  ) throws(StoreError) {
    var day = try store.channelDay(key) ?? ChannelFigures()
    day.published += change.published
    day.delivered += change.delivered
    if let now {
      day.subscriptions = now.subscriptions
      day.subscribers = now.subscribers
    }
    group.put(key, day)
  }

  private func removeOldDays(
    before day: UInt32, from group: inout WriteGroup
  ) throws(StoreError) {
    guard day > Self.keptDays else { return }
    var old: [[UInt8]] = []
    let prefix = ChannelDayRecord.prefix()
    try store.scan(.channels, prefix: prefix.span) { key, _ in
      guard let found = try? ChannelDayRecord.decode(key: key), found.day < day - Self.keptDays
      else { return false }
      old.append(key.copied())
      return true
    }
    for key in old { group.delete(.channels, key: key.span) }
  }
}

extension WriteGroup {
  fileprivate mutating func put(_ key: ChannelDayRecord.Key, _ figures: ChannelFigures) {
    let (key, value) = (ChannelDayRecord.encode(key), ChannelDayRecord(figures).encoded())
    put(.channels, key: key.span, value: value.span)
  }
}

extension ChannelRegister.Entry {
  fileprivate func figures(_ subscriptions: UInt64) -> ChannelFigures {
    ChannelFigures(
      published: publishedCount, delivered: deliveredCount, subscriptions: subscriptions)
  }
}
