import ApusModel
import ApusWire

/// A device's subscriptions to channels, and the broadcasts that it gets.
final class SimulatedSubscriber {
  /// A request without a confirmation.
  private struct Request {
    var index: UInt32
    var changes: [(channel: Int, subscribes: Bool)]
  }

  private unowned let device: SimulatedDevice
  private var world: Simulation { device.world }
  /// Serial numbers by message id.
  private(set) var serials: [UInt32: Int] = [:]
  /// The channels that the device wants.
  private var wanted: Set<Int> = []
  private var open: Request?
  private var lastIndex: UInt32 = 0
  /// When each connection was accepted.
  private var connectedTimes: [UInt64] = []
  /// For a canary: reported after the next one.
  private var delayed: BroadcastOracle.Arrival?

  init(_ device: SimulatedDevice) { self.device = device }

  // MARK: Requests

  /// The user opens or leaves something that has a channel.
  func toggle(_ channel: Int) {
    if wanted.remove(channel) == nil { wanted.insert(channel) }
    ask()
  }

  /// Asks again for what is not confirmed.
  func ask() {
    guard device.isConnected, open == nil else { return }
    var output: [UInt8] = []
    request(to: &output)
    device.channel?.send(output)
  }

  /// A connection was accepted, and the filter is in `output`.
  func connected(to output: inout [UInt8]) {
    open = nil
    connectedTimes.append(world.timeline.now)
    request(to: &output)
  }

  /// Whether the service has not confirmed what the device wants.
  var isWaiting: Bool {
    let oracle = world.broadcasts.oracle
    return oracle.channels.indices.contains {
      oracle.channels[$0].existence == .exists
        && oracle.subscription(device.index, $0) == .unknown
    }
  }

  private func request(to output: inout [UInt8]) {
    let oracle = world.broadcasts.oracle
    var changes: [(channel: Int, subscribes: Bool)] = []
    var topics: [CourierChannelTopic] = []
    for (index, channel) in oracle.channels.enumerated()
    where channel.existence == .exists && channel.environment == device.environment {
      let subscribes = wanted.contains(index)
      switch oracle.subscription(device.index, index) {
      case .no where !subscribes: continue
      case .yes where subscribes: continue
      default: break
      }
      changes.append((index, subscribes))
      let mark = CourierChannelMark(id: world.broadcasts.ids[index])
      topics.append(
        CourierChannelTopic(
          topic: Array(SimulationCredentials.activityTopic(channel.app).utf8),
          subscribed: subscribes ? [mark] : [], unsubscribed: subscribes ? [] : [mark]))
    }
    guard !changes.isEmpty else { return }
    for change in changes {
      oracle.asks(device.index, change.channel, subscribes: change.subscribes)
    }
    lastIndex += 1
    open = Request(index: lastIndex, changes: changes)
    world.trace("device asks for channels", device.index, Int(lastIndex), changes.count)
    CourierChannelRequest(
      index: lastIndex, token: nil, subscriptions: CourierSubscriptions(topics: topics)
    ).encode(to: &output)
  }

  func confirmed(_ confirmation: CourierChannelConfirmation) {
    guard let request = open, request.index == confirmation.index else { return }
    open = nil
    world.trace(
      "channels confirmed", device.index, Int(request.index), Int(confirmation.status.rawValue))
    guard confirmation.status == .applied else { return }
    for change in request.changes {
      world.broadcasts.oracle.confirmed(
        device.index, change.channel, subscribes: change.subscribes)
    }
  }

  // MARK: Broadcasts

  /// - Parameter extensions: Whether the frame has more than Apple's fields.
  func observe(_ view: CourierNotificationView, _ fields: Span<UInt8>, extensions: Bool) {
    guard let serial = SimulationPayload.serial(of: fields.extracting(view.payload)) else {
      return world.oracle.violated(
        .subscriptions, "device \(device.index) got an unknown broadcast")
    }
    let notification = view.notification
    serials[notification.messageID] = serial
    let app = (0..<SimulationCredentials.broadcastApps).first {
      SimulationCredentials.activityTopicHash($0) == notification.topic
    }
    let id = fields.extracting(view.channelID).copied()
    world.trace("broadcast delivered", serial, device.index)
    report(
      BroadcastOracle.Arrival(
        serial: serial, device: device.index, environment: device.environment, app: app,
        channel: world.broadcasts.ids.firstIndex(of: id), id: notification.id,
        identity: BroadcastIdentity(
          messageID: notification.messageID, sentNanoseconds: notification.sentNanoseconds),
        part: world.part(of: device.index),
        isMarked: extensions ? notification.storage.contains(.mayBeRepeated) : nil,
        connection: connectedTimes.count, isAtEdge: device.isAtEdge,
        connectedTime: connectedTimes.last ?? 0))
  }

  private func report(_ arrival: BroadcastOracle.Arrival) {
    let oracle = world.broadcasts.oracle
    if world.options.canary == .swapsBroadcasts, delayed == nil, arrival.serial.isMultiple(of: 4) {
      return delayed = arrival
    }
    oracle.delivered(arrival)
    guard let late = delayed else { return }
    delayed = nil
    oracle.delivered(late)
  }

  /// The device has been attentive since then: checks that it has the broadcasts.
  func check(since: UInt64) {
    guard device.isAttentive(since: since), let steadySince = device.steadySince else { return }
    world.broadcasts.oracle.expect(
      device.index, acceptedBefore: since, steadySince: steadySince
    ) { [self] time in
      connectedTimes.count { $0 > time } >= Limits.unacknowledgedEnds
    }
  }
}
