import ApusCore
import ApusRandom
import Testing

@Suite("Subscriptions of a worker's devices")
struct SubscriptionTableTests {
  private func visited(_ table: inout SubscriptionTable, _ channel: UInt32) -> [Int32] {
    var walk = table.walk(channel)
    defer { table.stop(walk) }
    var slots: [Int32] = []
    while let slot = table.next(&walk) { slots.append(slot) }
    return slots.sorted()
  }

  private func channels(_ table: SubscriptionTable, _ slot: Int32) -> [UInt32] {
    var found: [UInt32] = []
    table.forEach(of: slot) { channel, _ in found.append(channel) }
    return found.sorted()
  }

  @Test("A channel leads to its devices, and a device to its channels")
  func both() {
    var table = SubscriptionTable()
    for (channel, slot) in [(1, 7), (2, 7), (1, 9), (3, 0)] as [(UInt32, Int32)] {
      let isNew = table.insert(channel, of: slot, .settled)
      #expect(isNew)
    }
    let again = table.insert(1, of: 7, .settled)
    #expect(!again && table.count == 4)
    let found = [1, 3, 4].map { visited(&table, $0) }
    #expect(found == [[7, 9], [0], []])
    #expect(channels(table, 7) == [1, 2])
    #expect(table.count(of: 1) == 2)
  }

  @Test("A broadcast is due for each device that was subscribed when its walk began, and no other")
  func due() {
    var table = SubscriptionTable()
    for slot in 0..<3 as Range<Int32> { _ = table.insert(5, of: slot, .unsaved) }
    var walk = table.walk(5)
    _ = table.insert(5, of: 3, .settled)
    let gone = table.remove(5, of: 1)
    #expect(gone == .unsaved)
    var seen: [Int32] = []
    while let slot = table.next(&walk) { seen.append(slot) }
    table.stop(walk)
    #expect(seen.sorted() == [0, 2])
    #expect(table.standing(of: 0, in: 5) == .due)
    #expect(table.standing(of: 3, in: 5) == .settled)
    #expect(table.nextDue(of: 2) { _ in true } == 5)
    #expect(table.nextDue(of: 2) { _ in false } == nil)
    table.set(.sent, of: 2, in: 5)
    #expect(table.nextDue(of: 2) { _ in true } == nil)
  }

  @Test("A device that leaves tells how each of its subscriptions stood")
  func leave() {
    var table = SubscriptionTable()
    _ = table.insert(1, of: 4, .unsaved)
    _ = table.insert(2, of: 4, .sent)
    var told: [UInt32: SubscriptionTable.Standing] = [:]
    table.removeAll(of: 4) { told[$0] = $1 }
    #expect(told == [1: .unsaved, 2: .sent])
    let left = visited(&table, 1)
    #expect(table.count == 0 && channels(table, 4).isEmpty && left.isEmpty)
  }

  @Test("Deleting a channel leaves the other subscriptions of its devices")
  func deleted() {
    var table = SubscriptionTable()
    for slot in 0..<4 as Range<Int32> {
      for channel in 1...3 as ClosedRange<UInt32> { _ = table.insert(channel, of: slot, .due) }
    }
    let slots = table.removeAll(in: 2)
    #expect(slots.sorted() == [0, 1, 2, 3])
    #expect(channels(table, 3) == [1, 3])
    let found = [2, 3].map { visited(&table, $0) }
    #expect(found == [[], [0, 1, 2, 3]])
  }

  /// Against a dictionary of sets, with walks open across changes.
  @Test(
    "Random changes and walks agree with a plain model", arguments: [UInt64.random(in: 1...(.max))])
  func model(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var table = SubscriptionTable()
    var model: [Int32: [UInt32: SubscriptionTable.Standing]] = [:]
    var walk: (walk: SubscriptionTable.Walk, expected: Set<Int32>)?
    for _ in 0..<20_000 {
      let slot = Int32(random.below(40))
      let channel = UInt32(random.below(12))
      switch random.below(10) {
      case 0..<5:
        let isNew = table.insert(channel, of: slot, .settled)
        #expect(isNew == (model[slot]?[channel] == nil), "seed \(seed)")
        if isNew { model[slot, default: [:]][channel] = .settled }
      case 5..<7:
        let removed = table.remove(channel, of: slot)
        let modelled = model[slot]?.removeValue(forKey: channel)
        #expect(removed == modelled, "seed \(seed)")
        if walk?.walk.channel == channel { walk?.expected.remove(slot) }
      case 7:
        var told: [UInt32: SubscriptionTable.Standing] = [:]
        table.removeAll(of: slot) { told[$0] = $1 }
        let modelled = model.removeValue(forKey: slot) ?? [:]
        #expect(told == modelled, "seed \(seed)")
        walk?.expected.remove(slot)
      case 8:
        guard walk == nil else { continue }
        walk = (
          table.walk(channel), Set(model.filter { $0.value[channel] != nil }.map(\.key))
        )
      default:
        guard var open = walk else { continue }
        if let next = table.next(&open.walk) {
          let wasExpected = open.expected.remove(next) != nil
          #expect(wasExpected, "seed \(seed)")
          model[next]?[open.walk.channel] = .due
          walk = open
        } else {
          table.stop(open.walk)
          #expect(open.expected.isEmpty, "seed \(seed)")
          walk = nil
        }
      }
    }
    if let walk { table.stop(walk.walk) }
    #expect(table.count == model.values.reduce(0) { $0 + $1.count }, "seed \(seed)")
    for (slot, expected) in model {
      var found: [UInt32: SubscriptionTable.Standing] = [:]
      table.forEach(of: slot) { found[$0] = $1 }
      #expect(found == expected, "seed \(seed)")
    }
  }
}
