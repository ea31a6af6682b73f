import ApusModel

/// One broadcast as known to its provider.
struct SentBroadcast {
  var channel: Int
  /// 0: for one attempt.
  var expirationSeconds: Int64
  var sentTime: UInt64
  var answeredTime: UInt64?
  var standing = SentNotification.Standing.waiting
  /// Its `apns-unique-id`, once it is known: the answer's, and what devices were told.
  var id: NotificationID?
  /// By which devices know it when it comes again, once one has it. Each part of the devices numbers it by itself.
  var identities: [Int: BroadcastIdentity] = [:]
  /// The service's clock was close to its expiration at some time.
  var mayHaveExpired = false
}

/// What all frames with a broadcast for the devices of one part have in common.
struct BroadcastIdentity: Equatable {
  var messageID: UInt32
  var sentNanoseconds: UInt64?
}

/// Observes the broadcasts of a run without knowledge of the service's decisions: what providers were told, what
/// devices asked for and received, and the laws between the two.
final class BroadcastOracle {
  enum Existence: Equatable {
    case exists, isBeingDeleted
    case deleted(at: UInt64)
  }

  struct KnownChannel {
    var app: Int
    var environment: Environment
    var storage: ChannelStorage
    var existence = Existence.exists
    /// Serial numbers in the order of sending.
    var broadcasts: [Int] = []
  }

  /// Whether a device is subscribed to a channel.
  enum Subscription: Equatable {
    case no
    /// A request is under way, or its outcome is unknown.
    case unknown
    case yes(since: UInt64)
  }

  /// The last time that a device got a broadcast.
  private struct Receipt {
    var connection: Int
    /// The service's crashes and the disk's faults when it arrived: each may make it come again.
    var mishaps: Int
    /// Whether the service has processed its acknowledgement.
    var isSettled = false
  }

  /// A device and a channel, or a broadcast.
  private struct Pair: Hashable {
    var device: Int
    var other: Int
  }

  private(set) var channels: [KnownChannel] = []
  private(set) var sent: [SentBroadcast] = []
  private(set) var deliveredCount = 0
  private var subscriptions: [Pair: Subscription] = [:]
  private var receipts: [Pair: Receipt] = [:]
  /// By device and channel: those that arrived, without repeated ones.
  private var arrived: [Pair: [Int]] = [:]
  /// Of these the one that was sent last.
  private var newestArrived: [Pair: Int] = [:]
  private var expiring: [Int] = []
  private let violated: (SimulationLaw, String) -> Void
  private let timeline: Timeline
  private let wallMilliseconds: () -> Int64
  private let mishaps: () -> Int
  private let fencedUntil: () -> UInt64

  /// - Parameters:
  ///   - wallMilliseconds: The service's clock.
  ///   - mishaps: Counts crashes of the service and faults of its disk.
  ///   - fencedUntil: Until when there was a node that another one has taken over from.
  init(
    _ timeline: Timeline, wallMilliseconds: @escaping () -> Int64, mishaps: @escaping () -> Int,
    fencedUntil: @escaping () -> UInt64, violated: @escaping (SimulationLaw, String) -> Void
  ) {
    self.timeline = timeline
    self.wallMilliseconds = wallMilliseconds
    self.mishaps = mishaps
    self.fencedUntil = fencedUntil
    self.violated = violated
  }

  var acceptedCount: Int { sent.count { $0.standing == .accepted } }

  // MARK: Providers

  /// A provider was told that a channel exists; returns its index.
  func created(app: Int, environment: Environment, storage: ChannelStorage) -> Int {
    channels.append(KnownChannel(app: app, environment: environment, storage: storage))
    return channels.count - 1
  }

  func isBeingDeleted(_ channel: Int) { channels[channel].existence = .isBeingDeleted }

  func deleted(_ channel: Int) { channels[channel].existence = .deleted(at: timeline.now) }

  func send(on channel: Int, expirationSeconds: Int64) -> Int {
    let serial = sent.count
    sent.append(
      SentBroadcast(
        channel: channel, expirationSeconds: expirationSeconds, sentTime: timeline.now))
    channels[channel].broadcasts.append(serial)
    if expirationSeconds > 0 { expiring.append(serial) }
    return serial
  }

  func answered(_ serial: Int, _ standing: SentNotification.Standing, id: NotificationID? = nil) {
    sent[serial].standing = standing
    sent[serial].answeredTime = timeline.now
    if standing == .refused, !sent[serial].identities.isEmpty {
      violated(.rejection, "broadcast \(serial) was rejected, but delivered")
    }
    if let id { identify(serial, id) }
  }

  private func identify(_ serial: Int, _ id: NotificationID) {
    if let known = sent[serial].id, known != id {
      violated(.broadcastUniqueness, "broadcast \(serial) has two ids")
    }
    sent[serial].id = id
  }

  private func identify(_ serial: Int, _ identity: BroadcastIdentity, ofPart part: Int) {
    if let known = sent[serial].identities.updateValue(identity, forKey: part), known != identity,
      !mayBeForgotten(serial, byPart: part), !mayBeAttemptedTwice(serial, byPart: part)
    {
      violated(.broadcastUniqueness, "devices cannot know broadcast \(serial) when it comes again")
    }
  }

  /// Whether the part's node may have forgotten it: what has expired by its clock, another node may still have.
  private func mayBeForgotten(_ serial: Int, byPart part: Int) -> Bool {
    part > 0 && sent[serial].mayHaveExpired
  }

  /// Whether two nodes may have attempted it for devices of the part: one that another has taken over from, and does
  /// not know it, still hears of broadcasts.
  private func mayBeAttemptedTwice(_ serial: Int, byPart part: Int) -> Bool {
    let isStored =
      channels[sent[serial].channel].storage == .newest && sent[serial].expirationSeconds > 0
    return part > 0 && !isStored && fencedUntil() >= sent[serial].sentTime
  }

  // MARK: Devices

  func subscription(_ device: Int, _ channel: Int) -> Subscription {
    subscriptions[Pair(device: device, other: channel)] ?? .no
  }

  /// A device asks for a channel, or for its end.
  func asks(_ device: Int, _ channel: Int, subscribes: Bool) {
    let place = Pair(device: device, other: channel)
    let old = subscriptions[place] ?? .no
    if subscribes, case .yes = old { return }
    subscriptions[place] = .unknown
    guard subscribes else { return }
    // What the channel keeps comes again with a new subscription.
    for serial in arrived[place] ?? [] { receipts[Pair(device: device, other: serial)] = nil }
  }

  func confirmed(_ device: Int, _ channel: Int, subscribes: Bool) {
    let place = Pair(device: device, other: channel)
    if subscribes, case .yes = subscriptions[place] ?? .no { return }
    subscriptions[place] = subscribes ? .yes(since: timeline.now) : .no
  }

  struct Arrival {
    var serial: Int
    var device: Int
    var environment: Environment
    /// Of the topic in the frame; nil for none.
    var app: Int?
    /// The channel in the frame; nil for none that is known.
    var channel: Int?
    var id: NotificationID?
    var identity: BroadcastIdentity
    /// That of the device.
    var part: Int
    /// Whether it is marked as one that may have come before; nil in a dialect without that mark.
    var isMarked: Bool?
    /// The number of the device's connection.
    var connection: Int
    /// Whether it is at an edge, so that several nodes may have served it.
    var isAtEdge: Bool
    /// When it was accepted.
    var connectedTime: UInt64
  }

  func delivered(_ arrival: Arrival) {
    let (serial, device) = (arrival.serial, arrival.device)
    guard sent.indices.contains(serial) else {
      return violated(.subscriptions, "device \(device) got a broadcast that nobody sent")
    }
    deliveredCount += 1
    checkChannel(arrival)
    if sent[serial].standing == .refused {
      violated(.rejection, "broadcast \(serial) was rejected, but arrived")
    }
    if let id = arrival.id { identify(serial, id) }
    identify(serial, arrival.identity, ofPart: arrival.part)
    checkRepetition(arrival)
    let place = Pair(device: device, other: sent[serial].channel)
    checkOrder(serial, place)
    newestArrived[place] = max(newestArrived[place] ?? 0, serial)
    if arrived[place]?.contains(serial) != true { arrived[place, default: []].append(serial) }
  }

  private func checkChannel(_ arrival: Arrival) {
    let (serial, device) = (arrival.serial, arrival.device)
    let index = sent[serial].channel
    let channel = channels[index]
    if channel.environment != arrival.environment || channel.app != arrival.app
      || index != arrival.channel
    {
      violated(
        .subscriptions, "broadcast \(serial) reached device \(device) as that of another channel")
    }
    if subscription(device, index) == .no {
      violated(
        .subscriptions,
        "broadcast \(serial) of channel \(index) reached device \(device), which is not subscribed")
    }
    if case .deleted(let time) = channel.existence, time < arrival.connectedTime {
      violated(
        .subscriptions, "broadcast \(serial) arrived on a connection after its channel's end")
    }
  }

  private func checkRepetition(_ arrival: Arrival) {
    let place = Pair(device: arrival.device, other: arrival.serial)
    let last = receipts[place]
    receipts[place] = Receipt(connection: arrival.connection, mishaps: mishaps())
    guard let last, !mayBeForgotten(arrival.serial, byPart: arrival.part) else { return }
    let broadcast = sent[arrival.serial]
    let fault: String? =
      if broadcast.expirationSeconds == 0 || channels[broadcast.channel].storage == .none {
        "although it was for one attempt"
      } else if last.connection == arrival.connection, !arrival.isAtEdge {
        "on the same connection"
      } else if last.isSettled, last.mishaps == mishaps() {
        "although it was acknowledged"
      } else if arrival.isMarked == false {
        "without a mark"
      } else {
        nil
      }
    if let fault {
      violated(
        .broadcastUniqueness,
        "broadcast \(arrival.serial) came again to device \(arrival.device) \(fault)")
    }
  }

  private func checkOrder(_ serial: Int, _ place: Pair) {
    let broadcast = sent[serial]
    guard broadcast.standing == .accepted, let answered = broadcast.answeredTime,
      let newer = newestArrived[place], sent[newer].sentTime > answered
    else { return }
    violated(
      .broadcastOrder,
      "broadcast \(serial) reached device \(place.device) after the newer \(newer)")
  }

  /// The service has processed the device's acknowledgement.
  func settled(_ serial: Int, _ device: Int) {
    receipts[Pair(device: device, other: serial)]?.isSettled = true
  }

  /// The device has been connected for half a minute: it must have the newest broadcasts accepted before `time`.
  ///
  /// - Parameters:
  ///   - steadySince: Since when nothing has disturbed its connection.
  ///   - triedTooOften: Whether the service may have given up a broadcast that was sent at a time.
  func expect(
    _ device: Int, acceptedBefore time: UInt64, steadySince: UInt64,
    triedTooOften: (UInt64) -> Bool
  ) {
    for index in channels.indices where channels[index].existence == .exists {
      guard case .yes(let since) = subscription(device, index), since < time else { continue }
      guard let serial = newest(index, acceptedBefore: time) else { continue }
      let broadcast = sent[serial]
      let isStored = channels[index].storage == .newest && broadcast.expirationSeconds > 0
      let wasOnline = max(since, steadySince + 10 * Timeline.second) < broadcast.sentTime
      guard isStored || wasOnline, !broadcast.mayHaveExpired,
        !hasArrived(serial, Pair(device: device, other: index)),
        !triedTooOften(broadcast.sentTime)
      else { continue }
      violated(
        .broadcastArrival,
        "broadcast \(serial) of channel \(index) has not reached device \(device)")
    }
  }

  /// The newest broadcast of a channel, if it was surely accepted before then.
  private func newest(_ channel: Int, acceptedBefore time: UInt64) -> Int? {
    guard let last = channels[channel].broadcasts.last(where: { sent[$0].standing != .refused }),
      sent[last].standing == .accepted, let answered = sent[last].answeredTime, answered < time
    else { return nil }
    return last
  }

  /// Whether the device has that broadcast, or another one of a burst, which may have been accepted after it.
  private func hasArrived(_ serial: Int, _ place: Pair) -> Bool {
    (arrived[place] ?? []).suffix(64).contains {
      $0 == serial || sent[$0].answeredTime ?? .max >= sent[serial].sentTime
    }
  }

  // MARK: Time

  /// The service's clock advanced, was set, or is about to be set.
  func clockMoved() {
    let seconds = wallMilliseconds() / 1000
    expiring.removeAll { serial in
      guard seconds + 2 >= sent[serial].expirationSeconds else { return false }
      sent[serial].mayHaveExpired = true
      return true
    }
  }
}
