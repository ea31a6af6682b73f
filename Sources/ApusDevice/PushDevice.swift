import ApusLoop
public import ApusModel
import ApusTLS
import ApusTrust
import ApusWire
import Synchronization

/// A device of a push service.
///
/// ```swift
/// let device = try PushDevice(configuration: configuration)
/// try device.start()
/// let token = try await device.token(for: "com.example.app")
/// for await notification in device.notifications { show(notification) }
/// ```
///
/// The device connects, and reconnects whenever the connection ends: after 1, 2, 4 and so on seconds, at most five
/// minutes, each wait randomly reduced by up to half. With several addresses it waits only when each has failed, see
/// ``DeviceConfiguration/alternatives``. It stops when waiting does not help: see
/// ``DeviceEvent/disconnected(reason:retryMilliseconds:)``.
///
/// **At least once.** A notification is acknowledged once it is in ``notifications``, or with ``acknowledge(_:)`` if
/// the configuration says so. The service sends an unacknowledged notification again on a later connection. If one
/// arrives twice, it is reported once, as long as this object lives and the notification is among the last 512. An
/// application that must not lose the contents of the stream in a crash acknowledges notifications itself.
public final class PushDevice: Sendable {
  private enum Life { case created, running, stopping, neverStarted }

  /// The notifications in order of arrival. Read by one task.
  ///
  /// Bounded by `DeviceConfiguration.notificationBuffer`. While it is full, arriving notifications are not acknowledged
  /// and not lost: the service keeps them and delivers them on a later connection.
  public let notifications: AsyncStream<ReceivedNotification>
  /// Events of the connection. Read by one task; of unread events the latest 64 are kept.
  public let events: AsyncStream<DeviceEvent>

  private let loop: EventLoop
  /// Used only on the loop, and before it runs.
  private let core: PushDeviceCore
  private let life = Mutex(Life.created)

  /// - Throws: `DeviceError` if a certificate, a key or a topic is invalid.
  public init(configuration: DeviceConfiguration) throws {
    guard configuration.notificationBuffer > 0, configuration.keepAliveSeconds >= 0 else {
      throw DeviceError(
        .badConfiguration, "notificationBuffer must be at least 1, keepAliveSeconds at least 0")
    }
    guard configuration.alternatives.allSatisfy({ !$0.host.isEmpty }) else {
      throw DeviceError(.badConfiguration, "an alternative has no host")
    }
    try Self.check(configuration.topics)
    let identity = DeviceIdentity(
      certificatePEM: configuration.certificatePEM, keyPEM: configuration.keyPEM)
    let context: TLSContext
    do throws(TLSError) {
      context = try configuration.context(identity)
    } catch {
      throw DeviceError(.badConfiguration, error.description)
    }
    let (notifications, notificationSink) = AsyncStream.makeStream(
      of: ReceivedNotification.self,
      bufferingPolicy: .bufferingOldest(configuration.notificationBuffer))
    let (events, eventSink) = AsyncStream.makeStream(
      of: DeviceEvent.self, bufferingPolicy: .bufferingNewest(64))
    self.notifications = notifications
    self.events = events
    loop = EventLoop(name: "apus-device")
    core = PushDeviceCore(
      loop: loop, configuration: configuration, context: context,
      renewal: RenewalPlan(identity, configuration.renewal), notifications: notificationSink,
      events: eventSink)
  }

  deinit {
    guard life.withLock({ $0 }) == .running else { return }
    let (core, loop) = (core, loop)
    loop.perform {
      core.cut()
      loop.stop()
    }
  }

  // MARK: Lifecycle

  /// Starts to connect, on its own thread. Also connects again after the service did not accept the device any more.
  public func start() throws {
    try life.withLock { life in
      switch life {
      case .created:
        life = .running
        loop.start()
      case .running: break
      case .stopping, .neverStarted: throw Self.stopped
      }
      loop.perform { [core] in core.connection?.start() }
    }
  }

  /// Ends the connection after all pending output, then the two streams. Waits until that is done, at most about two
  /// seconds if the service does not respond. The device cannot be started again.
  public func stop() async {
    let before = life.withLock { life in
      let before = life
      life = before == .running || before == .stopping ? .stopping : .neverStarted
      return before
    }
    // A loop that never ran cannot execute anything.
    guard before == .running || before == .stopping else { return core.finish() }
    await withCheckedContinuation { continuation in
      loop.perform { [core, loop] in
        core.stop {
          continuation.resume()
          loop.stop()
        }
      }
    }
  }

  // MARK: Operations

  /// The token that the app of this topic gives its provider.
  ///
  /// Waits for a connection without limit; cancel the task to end the wait. The token stays the same until the app is
  /// uninstalled, so an app may request it at each start.
  ///
  /// - Throws: `DeviceError` if the service has no such topic or the device is not running; `CancellationError`.
  public func token(for topic: String) async throws -> DeviceToken {
    try requireRunning()
    let request = TokenRequest()
    return try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        loop.perform { [core] in core.requestToken(topic, request, continuation) }
      }
    } onCancel: {
      loop.perform { [core] in core.cancel(request) }
    }
  }

  /// Subscribes the device to a channel: it gets what providers broadcast on it, and at once the newest broadcast that
  /// the channel keeps.
  ///
  /// Returns once the service has stored it. Waits for a connection without limit; cancel the task to end the wait: the
  /// change may then be applied or not. The subscription stays, over connections and restarts of both sides, until it
  /// is ended or the channel is deleted; subscribing again has no effect.
  ///
  /// - Parameters:
  ///   - channel: The id in base64.
  ///   - topic: The app's topic for Live Activities, such as `com.example.app.push-type.liveactivity`, which the device
  ///     must list in `DeviceTopics`.
  /// - Throws: `DeviceError`: `unknownTopic`, `unknownChannel`, `tooManySubscriptions`, `unavailable`, or as
  ///   `token(for:)`; `CancellationError`.
  public func subscribe(to channel: String, of topic: String) async throws {
    _ = try await change(.init(subscribed: [ChannelSubscription(to: channel, of: topic)]))
  }

  /// Ends a subscription; one that does not exist is no error. Otherwise as `subscribe(to:of:)`.
  public func unsubscribe(from channel: String, of topic: String) async throws {
    _ = try await change(.init(unsubscribed: [ChannelSubscription(to: channel, of: topic)]))
  }

  /// Replaces all subscriptions of the device. Otherwise as `subscribe(to:of:)`; after an error other than
  /// `unavailable` it has those that could be applied, and no others.
  public func setSubscriptions(_ subscriptions: [ChannelSubscription]) async throws {
    _ = try await change(.init(subscribed: subscriptions, replaces: true))
  }

  /// All subscriptions of the device in its environment, as the service has them. Waits as `subscribe(to:of:)`.
  public func subscriptions() async throws -> [ChannelSubscription] {
    try await change(.init())
  }

  private func change(_ change: ChannelChange) async throws -> [ChannelSubscription] {
    try requireRunning()
    let message = try change.message()
    let ticket = ChannelTicket()
    return try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        loop.perform { [core] in core.change(message, ticket, continuation) }
      }
    } onCancel: {
      loop.perform { [core] in core.cancel(ticket) }
    }
  }

  /// Replaces the topics.
  public func setTopics(_ topics: DeviceTopics) throws {
    try Self.check(topics)
    perform { $0.setTopics(topics) }
  }

  /// Sets how the device is used: notifications of low priority wait until it is active. Active by default.
  public func setPower(_ power: PowerState) {
    perform { $0.connection?.setPower(power) }
  }

  /// Acknowledges a notification, if `DeviceConfiguration.acknowledgesAutomatically` is false. Repeating it has no
  /// effect. Without a connection, the acknowledgement is sent on the next one.
  public func acknowledge(_ notification: ReceivedNotification) {
    let messageID = notification.messageID
    perform { $0.connection?.acknowledge(messageID) }
  }

  private func perform(_ body: @Sendable @escaping (PushDeviceCore) -> Void) {
    loop.perform { [core] in body(core) }
  }

  private func requireRunning() throws {
    switch life.withLock({ $0 }) {
    case .created: throw DeviceError(.notStarted, "start() was not called")
    case .running: break
    case .stopping, .neverStarted: throw Self.stopped
    }
  }

  private static func check(_ topics: DeviceTopics) throws {
    guard topics.count <= Limits.courierFilterTopics else {
      throw DeviceError(
        .tooManyRequests,
        "\(topics.count) topics; the limit is \(Limits.courierFilterTopics)")
    }
  }

  static let stopped = DeviceError(.stopped, "the device was stopped")
}

/// Identifies a token request. Used only on the loop.
final class TokenRequest: @unchecked Sendable {
  var isCancelled = false
}
