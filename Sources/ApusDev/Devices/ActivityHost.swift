import ApusDevice
import ApusLoop
import ApusModel
import ApusWire

/// What a device did with a push to a Live Activity.
package struct ActivityOutcome: Sendable, Hashable {
  /// The name of the first change, or `dropped`.
  package var name: String
  /// The activity; nil if the push was dropped.
  package var activity: Int?
  /// Why it was dropped.
  package var reason: String?

  init(_ changes: [LiveActivities.Change]) {
    name = changes.first?.kind.name ?? "unchanged"
    activity = changes.first?.id
  }

  init(_ drop: ActivityDrop) {
    name = LiveActivity.Entry.Kind.dropped(drop).name
    reason = drop.description
  }

  func write(to writer: inout JSONWriter) {
    writer.beginObject()
    writer.text("outcome", name)
    writer.integer("activity", activity.map(Int64.init))
    writer.text("reason", reason)
    writer.endObject()
  }
}

/// Brings pushes and the clock to the Live Activities of all virtual devices. Confined to their loop.
final class ActivityHost {
  private let loop: EventLoop
  private let clock: ServiceClock
  private let book: DeviceBook
  private let record: @Sendable (PushRecorder.Note) -> Void
  /// All devices.
  var devices: () -> [VirtualDevice] = { [] }
  /// A connection with a new identity.
  var makeLink: (Environment) throws -> DeviceLink? = { _ in nil }
  private var timer: LoopTimer?

  /// Maximum wait, after which it looks again: a loop's clock and the service's may drift apart.
  private static let longestWaitMilliseconds: Int64 = 60_000

  init(
    loop: EventLoop, clock: ServiceClock, book: DeviceBook,
    record: @escaping @Sendable (PushRecorder.Note) -> Void
  ) {
    self.loop = loop
    self.clock = clock
    self.book = book
    self.record = record
  }

  /// By the service's clock.
  var nowMilliseconds: Int64 { clock.nowMilliseconds }
  var nowSeconds: Int64 { nowMilliseconds / 1000 }

  // MARK: Pushes

  func received(
    _ notification: DeviceLink.ReceivedNotification, _ device: VirtualDevice,
    over route: LiveActivities.Route
  ) {
    let strings = book.strings(of: notification.topic, device.language)
    let now = nowSeconds
    _ = device.activities.advance(to: now)
    var rendering: Rendering?
    let outcome: ActivityOutcome
    do throws(ActivityDrop) {
      let changes = try device.activities.receive(
        notification, over: route, strings: strings, at: now)
      outcome = ActivityOutcome(changes)
      for change in changes where change.kind == .started { connect(change.id, device) }
      rendering = Rendering(
        payload: notification.payload, language: device.language, strings: strings)
      // An alert is a banner, besides the change of the activity.
      if rendering?.hasText == true {
        device.show(.init(notification, rendering, atMilliseconds: nowMilliseconds))
      }
    } catch {
      outcome = ActivityOutcome(error)
    }
    settle(device)
    if let arrival = Arrival(
      notification, on: device.id, rendering, outcome, atMilliseconds: nowMilliseconds)
    {
      record(.arrived(arrival))
    }
  }

  /// The app of the topic starts an activity itself. Returns its id.
  func start(
    _ push: ActivityPush, topic: String, in environment: Environment, on device: VirtualDevice
  ) throws(ActivityDrop) -> Int? {
    _ = device.activities.advance(to: nowSeconds)
    let id = try device.activities.start(push, topic: topic, in: environment, at: nowSeconds)
    if let id { connect(id, device) }
    settle(device)
    return id
  }

  private func connect(_ id: Int, _ device: VirtualDevice) {
    guard let activity = device.activities[id], activity.source == .token,
      let environment = device.activities.environment(id), let link = try? makeLink(environment)
    else { return }
    link.onToken = { [book, record, unowned device] _, token in
      book.add(token.hex, of: device.id)
      record(.event(.device(device.id)))
    }
    link.onReceived = { [unowned self, unowned device] in
      received($0, device, over: .activity(id))
    }
    device.activities.add(link, id)
    link.setPower(device.power)
    device.sayTopics()
    if device.isOnline { link.start() }
    link.requestToken(activity.topic) { _ in }
  }

  // MARK: Time

  /// The service's clock was set.
  func clockChanged() {
    for device in devices() {
      _ = device.activities.advance(to: nowSeconds)
      settle(device)
      record(.event(.device(device.id)))
    }
  }

  private func timeHasPassed() {
    for device in devices() where device.activities.advance(to: nowSeconds) {
      settle(device)
      record(.event(.device(device.id)))
    }
    schedule()
  }

  func dismissAll(of device: VirtualDevice) {
    device.activities.dismissAll(at: nowSeconds)
    settle(device)
  }

  /// Subscribes to the channels of the activities that run, and closes the connections of past activities, once the
  /// service knows that their tokens are invalid. An offline device does so when it connects again.
  func settle(_ device: VirtualDevice) {
    schedule()
    for (environment, link) in device.links {
      link.setChannels(device.activities.channels(in: environment, at: nowSeconds))
    }
    guard device.isOnline else { return }
    for (id, link) in device.activities.takePast(at: nowSeconds) {
      link.setTopics(enabled: [], ignored: [])
      link.settle { link.stop { device.activities.forget(id) } }
    }
  }

  private func schedule() {
    guard let next = devices().compactMap(\.activities.nextChangeSeconds).min() else {
      timer?.stop()
      return
    }
    let timer = timer ?? LoopTimer(loop: loop) { [unowned self] in timeHasPassed() }
    self.timer = timer
    let wait = min(next, nowSeconds + Self.longestWaitMilliseconds) * 1000 - clock.nowMilliseconds
    timer.start(
      afterMilliseconds: UInt64(min(max(wait, 1), Self.longestWaitMilliseconds)))
  }

  func stop() {
    timer?.close()
    timer = nil
  }
}
