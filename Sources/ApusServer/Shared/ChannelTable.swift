import ApusModel

/// The channels of all apps, with what the service knows of each.
struct ChannelTable: Sendable {
  /// A channel as it is now.
  struct Entry: Sendable {
    var channel: Channel
    /// Which no other channel gets while the process runs.
    var number: UInt32
    /// What it keeps for devices that connect later.
    var stored: Broadcast?
    /// Broadcasts that are being written.
    var pendingCount = 0
    var publishedCount: UInt64 = 0
    var deliveredCount: UInt64 = 0
  }

  /// An app in an environment.
  struct Place: Hashable {
    var app: AppID
    var environment: Environment

    init(_ app: AppID, _ environment: Environment) {
      (self.app, self.environment) = (app, environment)
    }

    init(of channel: Channel) { self.init(channel.app, channel.environment) }
  }

  private var entries: [ChannelID: Entry] = [:]
  private var lastNumber: UInt32 = 0
  /// Of each app, in the order of their creation.
  private var ids: [Place: [ChannelID]] = [:]

  subscript(id: ChannelID) -> Entry? {
    get { entries[id] }
    // An entry of no channel that is there has no effect.
    set { if entries[id] != nil, let newValue { entries[id] = newValue } }
  }

  var isEmpty: Bool { entries.isEmpty }

  /// In no order.
  var all: some Collection<Entry> { entries.values }

  func ids(of place: Place) -> [ChannelID] { ids[place] ?? [] }

  mutating func insert(_ channel: Channel) {
    lastNumber += 1
    entries[channel.id] = Entry(channel: channel, number: lastNumber)
    ids[Place(of: channel), default: []].append(channel.id)
  }

  /// Returns the number that it had; nil if it was not there.
  mutating func remove(_ channel: Channel) -> UInt32? {
    guard let number = entries.removeValue(forKey: channel.id)?.number else { return nil }
    let place = Place(of: channel)
    ids[place]?.removeAll { $0 == channel.id }
    if ids[place]?.isEmpty == true { ids[place] = nil }
    return number
  }
}
