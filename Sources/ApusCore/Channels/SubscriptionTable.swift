/// The subscriptions of a worker's connected devices, dormant ones included: which channels a device has, and which
/// devices a channel has, each found without looking at others.
///
/// A subscription takes 8 bytes in the list of its device and at most 6 in the set of its channel, which takes only a
/// bit for each slot if many of them are in it. A connection slot takes 4 bytes.
///
/// A channel has a second set, of the devices for which its newest broadcast is due: a copy of the first one when the
/// broadcast comes, which empties as devices are sent it. Nothing is written for a device before its turn.
package struct SubscriptionTable {
  /// A device's subscription to a channel.
  package struct Subscription: Sendable, Hashable {
    package var channel: UInt32
    /// Whether the device was sent the newest broadcast, or needs none.
    package var hasNewest: Bool
    /// Whether it has acknowledged a broadcast of which the store does not know.
    package var isUnsaved: Bool

    package init(channel: UInt32, hasNewest: Bool, isUnsaved: Bool) {
      self.channel = channel
      self.hasNewest = hasNewest
      self.isUnsaved = isUnsaved
    }
  }

  private struct Entry {
    /// The channel's number, and whether the subscription is unsaved.
    var word: UInt32
    /// Of the same device, or of the free entries.
    var next: UInt32

    var channel: UInt32 { word >> Self.flagBits }
    var isUnsaved: Bool { word & Self.unsaved != 0 }

    static let flagBits: UInt32 = 1
    static let unsaved: UInt32 = 1
  }

  /// The devices of a channel, by their slots.
  private struct Members {
    var all = SlotSet()
    /// Those for which its newest broadcast is due.
    var due = SlotSet()
    /// Of these, those that came after it was published.
    var waited = SlotSet()

    mutating func remove(_ slot: Int32) {
      all.remove(slot)
      all.fit()
      due.remove(slot)
      waited.remove(slot)
    }
  }

  /// Where a walk along the devices of a channel is.
  package struct Walk: Sendable {
    package let channel: UInt32
    fileprivate var next: Int32 = 0
  }

  /// Numbers of channels are below this.
  package static let channelLimit: UInt32 = 1 << (32 - Entry.flagBits)

  private static let none = UInt32.max
  private static let chunkCount = 1024

  /// In chunks: growing one array would need twice the memory for a moment, and leave half of it unused.
  private var chunks: [[Entry]] = []
  private var firstFree = Self.none
  /// By slot.
  private var firstOfDevice: [UInt32] = []
  private var members: [UInt32: Members] = [:]
  package private(set) var count = 0

  package init() {}

  /// Allocated bytes, without those that the allocator adds.
  package var byteCount: Int {
    let sets = members.values.reduce(0) {
      $0 + $1.all.byteCount + $1.due.byteCount + $1.waited.byteCount
    }
    return sets + members.capacity * MemoryLayout<(UInt32, Members)>.stride
      + chunks.count * Self.chunkCount * MemoryLayout<Entry>.stride
      + firstOfDevice.capacity * MemoryLayout<UInt32>.stride
  }

  // MARK: Entries

  private subscript(index: UInt32) -> Entry {
    get { chunks[Int(index >> 10)][Int(index & 1023)] }
    set { chunks[Int(index >> 10)][Int(index & 1023)] = newValue }
  }

  private mutating func take(_ entry: Entry) -> UInt32 {
    if firstFree == Self.none { grow() }
    let index = firstFree
    firstFree = self[index].next
    self[index] = entry
    return index
  }

  private mutating func grow() {
    let start = UInt32(chunks.count * Self.chunkCount)
    chunks.append(
      (0..<UInt32(Self.chunkCount)).map { place in
        let isLast = place + 1 == UInt32(Self.chunkCount)
        return Entry(word: 0, next: isLast ? Self.none : start + place + 1)
      })
    firstFree = start
  }

  private mutating func free(_ index: UInt32) {
    self[index] = Entry(word: 0, next: firstFree)
    firstFree = index
    count -= 1
  }

  private func first(of slot: Int32) -> UInt32 {
    Int(slot) < firstOfDevice.count ? firstOfDevice[Int(slot)] : Self.none
  }

  private func entry(of slot: Int32, in channel: UInt32) -> UInt32? {
    var index = first(of: slot)
    while index != Self.none {
      let entry = self[index]
      if entry.channel == channel { return index }
      index = entry.next
    }
    return nil
  }

  private func isDue(_ channel: UInt32, for slot: Int32) -> Bool {
    members[channel]?.due.contains(slot) ?? false
  }

  private func subscription(_ entry: Entry, of slot: Int32) -> Subscription {
    Subscription(
      channel: entry.channel, hasNewest: !isDue(entry.channel, for: slot),
      isUnsaved: entry.isUnsaved)
  }

  // MARK: Devices

  /// Subscribes the device at a slot. False, without effect, if it is subscribed.
  ///
  /// - Parameter hasNewest: Whether it needs no broadcast that was published before.
  package mutating func insert(_ channel: UInt32, of slot: Int32, hasNewest: Bool) -> Bool {
    precondition(channel < Self.channelLimit && slot >= 0, "a number beyond the table's")
    guard entry(of: slot, in: channel) == nil else { return false }
    while firstOfDevice.count <= Int(slot) { firstOfDevice.append(Self.none) }
    firstOfDevice[Int(slot)] = take(
      Entry(word: channel << Entry.flagBits, next: firstOfDevice[Int(slot)]))
    members[channel, default: Members()].all.insert(slot)
    if !hasNewest {
      members[channel]?.due.insert(slot)
      members[channel]?.waited.insert(slot)
    }
    count += 1
    return true
  }

  /// Ends a subscription. False if there is none.
  @discardableResult
  package mutating func remove(_ channel: UInt32, of slot: Int32) -> Bool {
    guard let index = entry(of: slot, in: channel) else { return false }
    leaveDevice(index, slot)
    free(index)
    leaveChannel(channel, slot)
    return true
  }

  /// Takes an entry out of its device's list.
  private mutating func leaveDevice(_ index: UInt32, _ slot: Int32) {
    let next = self[index].next
    var other = firstOfDevice[Int(slot)]
    guard other != index else {
      firstOfDevice[Int(slot)] = next
      return
    }
    while self[other].next != index { other = self[other].next }
    self[other].next = next
  }

  private mutating func leaveChannel(_ channel: UInt32, _ slot: Int32) {
    members[channel]?.remove(slot)
    if members[channel]?.all.isEmpty == true { members[channel] = nil }
  }

  /// The device at a slot has gone: ends its subscriptions, each reported to `visit`.
  package mutating func removeAll(of slot: Int32, _ visit: (Subscription) -> Void) {
    var index = first(of: slot)
    guard index != Self.none else { return }
    firstOfDevice[Int(slot)] = Self.none
    while index != Self.none {
      let entry = self[index]
      visit(subscription(entry, of: slot))
      free(index)
      leaveChannel(entry.channel, slot)
      index = entry.next
    }
  }

  package func hasAny(of slot: Int32) -> Bool { first(of: slot) != Self.none }

  /// Calls `body` for each subscription of the device at a slot, the newest first.
  package func forEach(of slot: Int32, _ body: (Subscription) -> Void) {
    var index = first(of: slot)
    while index != Self.none {
      let entry = self[index]
      body(subscription(entry, of: slot))
      index = entry.next
    }
  }

  /// A channel of the device whose newest broadcast is due and which `mayGo`; nil if there is none.
  package func nextDue(of slot: Int32, where mayGo: (_ channel: UInt32) -> Bool) -> UInt32? {
    var index = first(of: slot)
    while index != Self.none {
      let entry = self[index]
      if isDue(entry.channel, for: slot), mayGo(entry.channel) { return entry.channel }
      index = entry.next
    }
    return nil
  }

  /// The device at a slot was sent the newest broadcast of a channel, or does not need it. Returns whether it was
  /// published before the device came.
  @discardableResult
  package mutating func noteSent(_ channel: UInt32, to slot: Int32) -> Bool {
    guard members[channel]?.due.remove(slot) == true else { return false }
    return members[channel]?.waited.remove(slot) ?? false
  }

  /// The device at a slot has acknowledged a broadcast of a channel that the store still has.
  package mutating func noteUnsaved(_ channel: UInt32, of slot: Int32) {
    if let index = entry(of: slot, in: channel) { self[index].word |= Entry.unsaved }
  }

  // MARK: Channels

  /// The devices of a channel.
  package func count(of channel: UInt32) -> Int { members[channel]?.all.count ?? 0 }

  /// A new broadcast is due for all devices of a channel. False if there are none.
  package mutating func publish(_ channel: UInt32) -> Bool {
    guard let all = members[channel]?.all else { return false }
    members[channel]?.due = all
    members[channel]?.waited = SlotSet()
    return true
  }

  /// Begins to visit the devices of a channel for which its newest broadcast is due.
  package func walk(_ channel: UInt32) -> Walk { Walk(channel: channel) }

  /// The slot of the next device of a walk; nil at its end. Of the devices for which a broadcast becomes due meanwhile,
  /// it visits some.
  package func next(_ walk: inout Walk) -> Int32? {
    guard let slot = members[walk.channel]?.due.first(from: walk.next) else { return nil }
    walk.next = slot + 1
    return slot
  }

  /// Ends all subscriptions of a channel that was deleted.
  package mutating func removeAll(in channel: UInt32) {
    guard let all = members.removeValue(forKey: channel)?.all else { return }
    var next = all.first(from: 0)
    while let slot = next {
      if let index = entry(of: slot, in: channel) {
        leaveDevice(index, slot)
        free(index)
      }
      next = all.first(from: slot + 1)
    }
  }
}
