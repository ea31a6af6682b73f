/// The subscriptions of a worker's connected devices, dormant ones included: which channels a device has, and which
/// devices a channel has, each found without looking at others.
///
/// A subscription takes 12 bytes, and a connection slot 4. Its entry is in two lists. That of its device ends with the
/// device's slot instead of another entry, so that a channel's entry leads to its device without 4 bytes of its own.
/// That of its channel is linked one way: an entry that ends is marked, and taken out by the next walk along the list.
package struct SubscriptionTable {
  /// What a device has of the newest broadcast of a channel.
  package enum Standing: UInt32, Sendable {
    /// Nothing that it needs: there is none, or it has had it.
    case settled = 0
    /// To be sent.
    case due = 1
    /// Sent, and not acknowledged.
    case sent = 2
    /// Acknowledged; the store does not know that yet.
    case unsaved = 3
  }

  private struct Entry {
    /// The channel's number, the standing, and whether the subscription has ended.
    var word: UInt32
    var nextOfChannel: UInt32
    /// With the highest bit: no entry, but the slot of the device.
    var nextOfDevice: UInt32

    var channel: UInt32 { word >> 3 }
    var hasEnded: Bool { word & 4 != 0 }

    var standing: Standing {
      get { Standing(rawValue: word & 3) ?? .settled }
      set { word = word & ~3 | newValue.rawValue }
    }
  }

  private struct Members {
    var first = SubscriptionTable.none
    var count = 0
    var endedCount = 0
    /// Walks that have not come to the end of the list.
    var walkCount = 0
  }

  /// Where a walk along a channel's list is.
  package struct Walk: Sendable {
    package let channel: UInt32
    fileprivate var next: UInt32
  }

  /// Numbers of channels are below this.
  package static let channelLimit: UInt32 = 1 << 29

  private static let none = UInt32.max
  private static let isSlot: UInt32 = 1 << 31
  private static let chunkCount = 1024

  /// In chunks: growing one array would need twice the memory for a moment, and leave half of it unused.
  private var chunks: [[Entry]] = []
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

  private mutating func take(_ entry: Entry) -> UInt32 {
    if firstFree == Self.none {
      let start = UInt32(chunks.count * Self.chunkCount)
      chunks.append(
        (0..<UInt32(Self.chunkCount)).map { place in
          let isLast = place + 1 == UInt32(Self.chunkCount)
          return Entry(
            word: 0, nextOfChannel: isLast ? Self.none : start + place + 1, nextOfDevice: 0)
        })
      firstFree = start
    }
    let index = firstFree
    firstFree = self[index].nextOfChannel
    self[index] = entry
    return index
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

  // MARK: Devices

  /// Subscribes the device at a slot. False, without effect, if it is subscribed.
  package mutating func insert(_ channel: UInt32, of slot: Int32, _ standing: Standing) -> Bool {
    precondition(channel < Self.channelLimit && slot >= 0, "a number beyond the table's")
    guard entry(of: slot, in: channel) == nil else { return false }
    while firstOfDevice.count <= Int(slot) { firstOfDevice.append(Self.none) }
    let next = firstOfDevice[Int(slot)]
    var members = members[channel] ?? Members()
    let index = take(
      Entry(
        word: channel << 3 | standing.rawValue, nextOfChannel: members.first,
        nextOfDevice: next == Self.none ? UInt32(slot) | Self.isSlot : next))
    firstOfDevice[Int(slot)] = index
    members.first = index
    members.count += 1
    self.members[channel] = members
    count += 1
    return true
  }

  /// Ends a subscription; returns how it stood, or nil if there is none.
  package mutating func remove(_ channel: UInt32, of slot: Int32) -> Standing? {
    guard let index = entry(of: slot, in: channel) else { return nil }
    let standing = self[index].standing
    leaveDevice(index, slot)
    end(index)
    return standing
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
    self[index].word |= 4
    count -= 1
    members[channel]?.count -= 1
    members[channel]?.endedCount += 1
    sweepIfDue(channel)
  }

  /// The device at a slot has gone: ends its subscriptions, each reported to `visit`.
  package mutating func removeAll(
    of slot: Int32, _ visit: (_ channel: UInt32, _ standing: Standing) -> Void
  ) {
    var index = first(of: slot)
    guard index != Self.none else { return }
    firstOfDevice[Int(slot)] = Self.none
    while index < Self.isSlot {
      let entry = self[index]
      visit(entry.channel, entry.standing)
      end(index)
      index = entry.nextOfDevice
    }
  }

  /// Calls `body` for each channel of the device at a slot, the newest subscription first.
  package func forEach(
    of slot: Int32, _ body: (_ channel: UInt32, _ standing: Standing) -> Void
  ) {
    var index = first(of: slot)
    while index < Self.isSlot {
      let entry = self[index]
      body(entry.channel, entry.standing)
      index = entry.nextOfDevice
    }
  }

  /// A channel of the device whose newest broadcast is due and which `mayGo`; nil if there is none.
  package func nextDue(of slot: Int32, where mayGo: (_ channel: UInt32) -> Bool) -> UInt32? {
    var index = first(of: slot)
    while index < Self.isSlot {
      let entry = self[index]
      if entry.standing == .due, mayGo(entry.channel) { return entry.channel }
      index = entry.nextOfDevice
    }
    return nil
  }

  package func standing(of slot: Int32, in channel: UInt32) -> Standing? {
    entry(of: slot, in: channel).map { self[$0].standing }
  }

  package mutating func set(_ standing: Standing, of slot: Int32, in channel: UInt32) {
    if let index = entry(of: slot, in: channel) { self[index].standing = standing }
  }

  // MARK: Channels

  /// The devices of a channel.
  package func count(of channel: UInt32) -> Int { members[channel]?.count ?? 0 }

  /// Begins to visit the devices of a channel, for a broadcast. Take it to its end, or call `stop`.
  package mutating func walk(_ channel: UInt32) -> Walk {
    members[channel, default: Members()].walkCount += 1
    return Walk(channel: channel, next: members[channel]?.first ?? Self.none)
  }

  /// The slot of the next device, for which the newest broadcast is due now; nil at the end. Devices that subscribe
  /// meanwhile are not visited.
  package mutating func next(_ walk: inout Walk) -> Int32? {
    while walk.next != Self.none {
      let index = walk.next
      let entry = self[index]
      walk.next = entry.nextOfChannel
      guard !entry.hasEnded else { continue }
      self[index].standing = .due
      return slot(of: index)
    }
    return nil
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
        self[index].word |= 4
        count -= 1
        members[channel]?.count -= 1
        members[channel]?.endedCount += 1
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
