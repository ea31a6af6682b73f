import ApusCore
import ApusRandom
import Testing

@Suite("Subscriptions of a worker's devices")
struct SubscriptionTableTests {
  /// The slots for which a walk finds the newest broadcast due.
  private func walked(_ table: inout SubscriptionTable, _ channel: UInt32) -> [Int32] {
    var walk = table.walk(channel)
    return rest(&table, &walk)
  }

  private func rest(
    _ table: inout SubscriptionTable, _ walk: inout SubscriptionTable.Walk
  ) -> [Int32] {
    var slots: [Int32] = []
    while let slot = table.next(&walk) { slots.append(slot) }
    return slots
  }

  private func channels(_ table: SubscriptionTable, _ slot: Int32) -> [UInt32] {
    var found: [UInt32] = []
    table.forEach(of: slot) { found.append($0.channel) }
    return found.sorted()
  }

  private func due(_ table: SubscriptionTable, _ slot: Int32) -> UInt32? {
    table.nextDue(of: slot) { _ in true }
  }

  @Test("A channel leads to its devices, and a device to its channels")
  func both() {
    var table = SubscriptionTable()
    for (channel, slot) in [(1, 7), (2, 7), (1, 9), (3, 0)] as [(UInt32, Int32)] {
      let isNew = table.insert(channel, of: slot, hasNewest: true)
      #expect(isNew)
    }
    let again = table.insert(1, of: 7, hasNewest: true)
    #expect(!again && table.count == 4)
    for channel in [1, 3, 4] as [UInt32] { _ = table.publish(channel) }
    let found = [1, 3, 4].map { walked(&table, $0) }
    #expect(found == [[7, 9], [0], []])
    #expect(channels(table, 7) == [1, 2])
    #expect(table.count(of: 1) == 2 && table.hasAny(of: 9) && !table.hasAny(of: 1))
  }

  @Test("A broadcast is due once for each device that was subscribed, and for no other")
  func dueOnce() {
    var table = SubscriptionTable()
    for slot in 0..<3 as Range<Int32> { _ = table.insert(5, of: slot, hasNewest: true) }
    #expect(due(table, 0) == nil)
    let isWanted = table.publish(5)
    #expect(isWanted)
    _ = table.insert(5, of: 3, hasNewest: true)
    let isGone = table.remove(5, of: 1)
    #expect(isGone)
    let found = walked(&table, 5)
    #expect(found == [0, 2])
    #expect([0, 2, 3].map { due(table, $0) } == [5, 5, nil])
    #expect(table.nextDue(of: 2) { _ in false } == nil)
    table.noteSent(5, to: 2)
    #expect(due(table, 2) == nil)
    let again = walked(&table, 5)
    #expect(again == [0])
  }

  @Test("A device that subscribes later can be in arrears")
  func arrears() {
    var table = SubscriptionTable()
    _ = table.insert(5, of: 0, hasNewest: false)
    #expect(due(table, 0) == 5)
    table.noteSent(5, to: 0)
    #expect(due(table, 0) == nil)
  }

  @Test("It is known whether a broadcast was published before its device came")
  func waited() {
    var table = SubscriptionTable()
    _ = table.insert(5, of: 0, hasNewest: false)
    _ = table.insert(5, of: 1, hasNewest: true)
    let first = [0, 0, 1].map { table.noteSent(5, to: $0) }
    #expect(first == [true, false, false])
    _ = table.insert(5, of: 2, hasNewest: false)
    // Another one replaces what waited.
    _ = table.publish(5)
    #expect(Set(walked(&table, 5)) == [0, 1, 2])
    let second = [0, 1, 2].map { table.noteSent(5, to: $0) }
    #expect(second == [false, false, false])
  }

  @Test("A broadcast during a walk is due for those that the walk has passed")
  func during() {
    var table = SubscriptionTable()
    for slot in 0..<4 as Range<Int32> { _ = table.insert(1, of: slot, hasNewest: true) }
    _ = table.publish(1)
    var walk = table.walk(1)
    for _ in 0..<2 {
      if let slot = table.next(&walk) { table.noteSent(1, to: slot) }
    }
    _ = table.publish(1)
    for slot in rest(&table, &walk) { table.noteSent(1, to: slot) }
    let again = walked(&table, 1)
    #expect(again == [0, 1])
  }

  @Test("A device that never has room is behind after any number of broadcasts")
  func wrap() {
    var table = SubscriptionTable()
    _ = table.insert(1, of: 0, hasNewest: true)
    for _ in 0..<3 {
      _ = table.publish(1)
      let found = walked(&table, 1)
      #expect(found == [0] && due(table, 0) == 1)
    }
  }

  @Test("A device that leaves tells how each of its subscriptions stood")
  func leave() {
    var table = SubscriptionTable()
    _ = table.insert(1, of: 4, hasNewest: true)
    _ = table.insert(2, of: 4, hasNewest: false)
    table.noteUnsaved(1, of: 4)
    var told: Set<SubscriptionTable.Subscription> = []
    table.removeAll(of: 4) { told.insert($0) }
    let expected: Set<SubscriptionTable.Subscription> = [
      .init(channel: 1, hasNewest: true, isUnsaved: true),
      .init(channel: 2, hasNewest: false, isUnsaved: false),
    ]
    #expect(told == expected)
    #expect(table.count == 0 && channels(table, 4).isEmpty)
  }

  @Test("Deleting a channel leaves the other subscriptions of its devices")
  func deleted() {
    var table = SubscriptionTable()
    for slot in 0..<4 as Range<Int32> {
      for channel in 1...3 as ClosedRange<UInt32> {
        _ = table.insert(channel, of: slot, hasNewest: false)
      }
    }
    table.removeAll(in: 2)
    #expect(table.count == 8)
    for slot in 0..<4 as Range<Int32> { #expect(channels(table, slot) == [1, 3]) }
    let found = [2, 3].map { walked(&table, $0) }
    #expect(found == [[], [0, 1, 2, 3]])
  }

  @Test(
    "A subscription takes at most 16 bytes, and half of that beside its part of a large channel")
  func bytes() {
    func bytesPerSubscription(_ table: SubscriptionTable) -> Double {
      Double(table.byteCount) / Double(table.count)
    }
    var large = SubscriptionTable()
    for slot in 0..<19_000 as Range<Int32> {
      for channel in 1...3 as ClosedRange<UInt32> {
        _ = large.insert(channel, of: slot, hasNewest: true)
      }
    }
    #expect(bytesPerSubscription(large) < 11)
    for channel in 1...3 as ClosedRange<UInt32> { _ = large.publish(channel) }
    #expect(bytesPerSubscription(large) < 11, "with a broadcast under way in each channel")
    // Channels of one device in a hundred.
    var small = SubscriptionTable()
    for slot in 0..<20_000 as Range<Int32> {
      for place in 0..<3 as Range<UInt32> {
        _ = small.insert(UInt32(slot) % 100 + 100 * place, of: slot, hasNewest: true)
      }
    }
    #expect(bytesPerSubscription(small) < 16)
  }

  /// What a device has of a channel.
  private struct Modelled: Equatable {
    var sent: Int
    var isUnsaved = false
  }

  /// A dictionary of dictionaries that behaves as the table should.
  private struct Model {
    var devices: [Int32: [UInt32: Modelled]] = [:]
    var newest: [UInt32: Int] = [:]

    func subscriptions(of slot: Int32) -> Set<SubscriptionTable.Subscription> {
      Set(
        (devices[slot] ?? [:]).map { channel, has in
          .init(
            channel: channel, hasNewest: has.sent == newest[channel, default: 0],
            isUnsaved: has.isUnsaved)
        })
    }
  }

  @Test(
    "Random changes and walks agree with a plain model", arguments: [UInt64.random(in: 1...(.max))])
  func model(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var table = SubscriptionTable()
    var model = Model()
    var walk: (walk: SubscriptionTable.Walk, expected: Set<Int32>)?
    for _ in 0..<20_000 {
      let (slot, channel) = (Int32(random.below(40)), UInt32(random.below(12)))
      switch random.below(14) {
      case 0..<5:
        let hasNewest = random.below(2) == 0
        let isNew = table.insert(channel, of: slot, hasNewest: hasNewest)
        #expect(isNew == (model.devices[slot]?[channel] == nil), "seed \(seed)")
        guard isNew else { continue }
        let newest = model.newest[channel, default: 0]
        model.devices[slot, default: [:]][channel] = Modelled(sent: hasNewest ? newest : newest - 1)
      case 5..<7:
        let wasThere = table.remove(channel, of: slot)
        let modelled = model.devices[slot]?.removeValue(forKey: channel)
        #expect(wasThere == (modelled != nil), "seed \(seed)")
        if walk?.walk.channel == channel { walk?.expected.remove(slot) }
      case 7:
        var told: Set<SubscriptionTable.Subscription> = []
        let expected = model.subscriptions(of: slot)
        table.removeAll(of: slot) { told.insert($0) }
        #expect(told == expected, "seed \(seed)")
        model.devices[slot] = nil
        walk?.expected.remove(slot)
      case 8:
        table.noteSent(channel, to: slot)
        model.devices[slot]?[channel]?.sent = model.newest[channel, default: 0]
        if walk?.walk.channel == channel { walk?.expected.remove(slot) }
      case 9:
        table.noteUnsaved(channel, of: slot)
        model.devices[slot]?[channel]?.isUnsaved = true
      case 10:
        // A walk during which another broadcast comes is tested above.
        guard walk == nil else { continue }
        model.newest[channel, default: 0] += 1
        _ = table.publish(channel)
        let expected = model.devices.filter { $0.value[channel] != nil }
        walk = (table.walk(channel), Set(expected.map(\.key)))
      default:
        guard var open = walk else { continue }
        if let next = table.next(&open.walk) {
          // One that subscribed meanwhile may be visited, too.
          let found = model.devices[next]?[open.walk.channel]
          #expect(
            found.map { $0.sent < model.newest[open.walk.channel, default: 0] } == true,
            "seed \(seed)")
          open.expected.remove(next)
          walk = open
        } else {
          #expect(open.expected.isEmpty, "seed \(seed)")
          walk = nil
        }
      }
    }
    #expect(table.count == model.devices.values.reduce(0) { $0 + $1.count }, "seed \(seed)")
    for slot in 0..<40 as Range<Int32> {
      var found: Set<SubscriptionTable.Subscription> = []
      table.forEach(of: slot) { found.insert($0) }
      #expect(found == model.subscriptions(of: slot), "seed \(seed)")
    }
  }
}
