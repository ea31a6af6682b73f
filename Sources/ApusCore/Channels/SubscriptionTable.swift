/// The subscriptions of a worker's connected devices, dormant ones included: which channels a device has, and which
/// devices a channel has, each found without looking at others.
///
/// A subscription takes 14 bytes, and a connection slot 4. Its entry is in two lists. That of its device ends with the
/// device's slot instead of another entry, so that a channel's entry leads to its device without 4 bytes of its own.
/// That of its channel is linked one way: an entry that ends is marked, and taken out by the next walk along the list.
///
/// Each subscription has the number of the broadcast that its device was sent last; it is due if the channel's is
/// another. These numbers have 16 bits: a walk along a channel makes every device's at most one older than the
/// channel's, so that none is ever mistaken for one of the previous round.
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
    /// The channel's number, whether its newest broadcast waited for the device, whether the subscription has ended,
    /// and whether it is unsaved.
    var word: UInt32
    var nextOfChannel: UInt32
    /// With the highest bit: no entry, but the slot of the device.
    var nextOfDevice: UInt32

    var channel: UInt32 { word >> Self.flagBits }
    var hasWaited: Bool { word & Self.waited != 0 }
    var hasEnded: Bool { word & Self.ended != 0 }
    var isUnsaved: Bool { word & Self.unsaved != 0 }

    static let flagBits: UInt32 = 3
    static let waited: UInt32 = 4
    static let ended: UInt32 = 2
    static let unsaved: UInt32 = 1
  }

  private struct Members {
    var first = SubscriptionTable.none
    var count = 0
    var endedCount = 0
    /// Walks that have not come to the end of the list.
    var walkCount = 0
    /// The number of the channel's newest broadcast.
    var newest: UInt16 = 0
  }

  /// Where a walk along a channel's list is.
  package struct Walk: Sendable {
    package let channel: UInt32
    fileprivate var next: UInt32
  }

  /// What a walk finds.
  package enum Step: Equatable, Sendable {
    /// The device at that slot has the newest broadcast to come.
    case due(slot: Int32)
    /// An entry that needs nothing.
    case passed
    case end
  }

  /// Numbers of channels are below this.
  package static let channelLimit: UInt32 = 1 << (32 - Entry.flagBits)

  private static let none = UInt32.max
  private static let isSlot: UInt32 = 1 << 31
  private static let chunkCount = 1024

  /// In chunks: growing one array would need twice the memory for a moment, and leave half of it unused.
  private var chunks: [[Entry]] = []
  /// The number of the broadcast that the device of each entry was sent last; apart, for the sake of two bytes.
  private var sent: [[UInt16]] = []
  private var firstFree = Self.none
  /// By slot.
  private var firstOfDevice: [UInt32] = []
  private var members: [UInt32: Members] = [:]
  package private(set) var count = 0

  package init() {}

  // MARK: Entries

  private subscript(index: UInt32) -> Entry {
    get { chunks[Int(index >> 10)][Int(index & 1023)] }
    set { chunks[Int(index >> 10)][Int(index & 1023)] = newValue }
  }

  private func lastSent(_ index: UInt32) -> UInt16 { sent[Int(index >> 10)][Int(index & 1023)] }

  private mutating func setLastSent(_ index: UInt32, _ number: UInt16) {
    sent[Int(index >> 10)][Int(index & 1023)] = number
  }

  private mutating func take(_ entry: Entry) -> UInt32 {
    if firstFree == Self.none { grow() }
    let index = firstFree
    firstFree = self[index].nextOfChannel
    self[index] = entry
    return index
  }

  private mutating func grow() {
    let start = UInt32(chunks.count * Self.chunkCount)
    chunks.append(
      (0..<UInt32(Self.chunkCount)).map { place in
        let isLast = place + 1 == UInt32(Self.chunkCount)
        return Entry(
          word: 0, nextOfChannel: isLast ? Self.none : start + place + 1, nextOfDevice: 0)
      })
    sent.append([UInt16](repeating: 0, count: Self.chunkCount))
    firstFree = start
  }

  private mutating func free(_ index: UInt32) {
    self[index] = Entry(word: 0, nextOfChannel: firstFree, nextOfDevice: 0)
    firstFree = index
  }

  private func first(of slot: Int32) -> UInt32 {
    Int(slot) < firstOfDevice.count ? firstOfDevice[Int(slot)] : Self.none
  }

  private func entry(of slot: Int32, in channel: UInt32) -> UInt32? {
    var index = first(of: slot)
    while index < Self.isSlot {
      let entry = self[index]
      if entry.channel == channel { return index }
      index = entry.nextOfDevice
    }
    return nil
  }

  private func slot(of index: UInt32) -> Int32 {
    var index = index
    while index < Self.isSlot { index = self[index].nextOfDevice }
    return Int32(index & ~Self.isSlot)
  }

  private func hasNewest(_ index: UInt32) -> Bool {
    members[self[index].channel].map { $0.newest == lastSent(index) } ?? true
  }

  private func subscription(_ index: UInt32) -> Subscription {
    let entry = self[index]
    return Subscription(
      channel: entry.channel, hasNewest: hasNewest(index), isUnsaved: entry.isUnsaved)
  }

  // MARK: Devices

  /// Subscribes the device at a slot. False, without effect, if it is subscribed.
  ///
  /// - Parameter hasNewest: Whether it needs no broadcast that was published before.
  package mutating func insert(_ channel: UInt32, of slot: Int32, hasNewest: Bool) -> Bool {
    precondition(channel < Self.channelLimit && slot >= 0, "a number beyond the table's")
    guard entry(of: slot, in: channel) == nil else { return false }
    while firstOfDevice.count <= Int(slot) { firstOfDevice.append(Self.none) }
    let next = firstOfDevice[Int(slot)]
    var members = members[channel] ?? Members()
    let index = take(
      Entry(
        word: channel << Entry.flagBits | (hasNewest ? 0 : Entry.waited),
        nextOfChannel: members.first,
        nextOfDevice: next == Self.none ? UInt32(slot) | Self.isSlot : next))
    setLastSent(index, hasNewest ? members.newest : members.newest &- 1)
    firstOfDevice[Int(slot)] = index
    members.first = index
    members.count += 1
    self.members[channel] = members
    count += 1
    return true
  }

  /// Ends a subscription. False if there is none.
  @discardableResult
  package mutating func remove(_ channel: UInt32, of slot: Int32) -> Bool {
    guard let index = entry(of: slot, in: channel) else { return false }
    leaveDevice(index, slot)
    end(index)
    sweepIfDue(channel)
    return true
  }

  /// Takes an entry out of its device's list.
  private mutating func leaveDevice(_ index: UInt32, _ slot: Int32) {
    let next = self[index].nextOfDevice
    var other = firstOfDevice[Int(slot)]
    guard other != index else {
      firstOfDevice[Int(slot)] = next < Self.isSlot ? next : Self.none
      return
    }
    while self[other].nextOfDevice != index { other = self[other].nextOfDevice }
    self[other].nextOfDevice = next
  }

  private mutating func end(_ index: UInt32) {
    let channel = self[index].channel
    self[index].word |= Entry.ended
    count -= 1
    members[channel]?.count -= 1
    members[channel]?.endedCount += 1
  }

  /// The device at a slot has gone: ends its subscriptions, each reported to `visit`.
  package mutating func removeAll(of slot: Int32, _ visit: (Subscription) -> Void) {
    var index = first(of: slot)
    guard index != Self.none else { return }
    firstOfDevice[Int(slot)] = Self.none
    while index < Self.isSlot {
      let entry = self[index]
      visit(subscription(index))
      end(index)
      sweepIfDue(entry.channel)
      index = entry.nextOfDevice
    }
  }

  package func hasAny(of slot: Int32) -> Bool { first(of: slot) != Self.none }

  /// Calls `body` for each subscription of the device at a slot, the newest first.
  package func forEach(of slot: Int32, _ body: (Subscription) -> Void) {
    var index = first(of: slot)
    while index < Self.isSlot {
      body(subscription(index))
      index = self[index].nextOfDevice
    }
  }

  /// A channel of the device whose newest broadcast is due and which `mayGo`; nil if there is none.
  package func nextDue(of slot: Int32, where mayGo: (_ channel: UInt32) -> Bool) -> UInt32? {
    var index = first(of: slot)
    while index < Self.isSlot {
      let entry = self[index]
      if !hasNewest(index), mayGo(entry.channel) { return entry.channel }
      index = entry.nextOfDevice
    }
    return nil
  }

  /// The device at a slot was sent the newest broadcast of a channel, or does not need it. Returns whether it was
  /// published before the device came.
  @discardableResult
  package mutating func noteSent(_ channel: UInt32, to slot: Int32) -> Bool {
    guard let index = entry(of: slot, in: channel), let members = members[channel] else {
      return false
    }
    setLastSent(index, members.newest)
    defer { self[index].word &= ~Entry.waited }
    return self[index].hasWaited
  }

  /// The device at a slot has acknowledged a broadcast of a channel that the store still has.
  package mutating func noteUnsaved(_ channel: UInt32, of slot: Int32) {
    if let index = entry(of: slot, in: channel) { self[index].word |= Entry.unsaved }
  }

  // MARK: Channels

  /// The devices of a channel.
  package func count(of channel: UInt32) -> Int { members[channel]?.count ?? 0 }

  /// A new broadcast is due for all devices of a channel. False if there are none.
  package mutating func publish(_ channel: UInt32) -> Bool {
    guard members[channel] != nil else { return false }
    members[channel]?.newest &+= 1
    return members[channel]?.count ?? 0 > 0
  }

  /// Begins to visit the devices of a channel. Take it to its end, or call `stop`.
  package mutating func walk(_ channel: UInt32) -> Walk {
    members[channel, default: Members()].walkCount += 1
    return Walk(channel: channel, next: members[channel]?.first ?? Self.none)
  }

  /// The next step of a walk. Devices that subscribe meanwhile are not visited.
  package mutating func next(_ walk: inout Walk) -> Step {
    guard walk.next != Self.none else { return .end }
    let index = walk.next
    let entry = self[index]
    walk.next = entry.nextOfChannel
    guard !entry.hasEnded, let members = members[walk.channel], members.newest != lastSent(index)
    else { return .passed }
    setLastSent(index, members.newest &- 1)
    self[index].word &= ~Entry.waited
    return .due(slot: slot(of: index))
  }

  /// The walk is over.
  package mutating func stop(_ walk: Walk) {
    members[walk.channel]?.walkCount -= 1
    sweepIfDue(walk.channel)
  }

  /// Ends all subscriptions of a channel that was deleted; returns the slots of its devices.
  package mutating func removeAll(in channel: UInt32) -> [Int32] {
    var slots: [Int32] = []
    var index = members[channel]?.first ?? Self.none
    while index != Self.none {
      let entry = self[index]
      if !entry.hasEnded {
        let slot = slot(of: index)
        slots.append(slot)
        leaveDevice(index, slot)
        end(index)
      }
      index = entry.nextOfChannel
    }
    sweepIfDue(channel)
    return slots
  }

  /// Frees the ended entries of a channel's list once they are many. Not while a walk may be at one of them.
  private mutating func sweepIfDue(_ channel: UInt32) {
    guard var members = members[channel], members.walkCount == 0,
      members.endedCount > members.count / 4 + 16 || members.count == 0
    else { return }
    var index = members.first
    var last = Self.none
    members.first = Self.none
    while index != Self.none {
      let entry = self[index]
      if entry.hasEnded {
        free(index)
      } else if last == Self.none {
        members.first = index
        last = index
      } else {
        self[last].nextOfChannel = index
        last = index
      }
      index = entry.nextOfChannel
    }
    if last != Self.none { self[last].nextOfChannel = Self.none }
    members.endedCount = 0
    self.members[channel] = members.count > 0 ? members : nil
  }
}
