import ApusLoop
public import ApusModel
import ApusTLS
import ApusTrust
import ApusWire
import Synchronization

/// A device of a push service, for applications.
///
/// ```swift
/// let device = try PushDevice(configuration: configuration)
/// try device.start()
/// let token = try await device.token(for: "com.example.app")
/// for await notification in device.notifications { show(notification) }
/// ```
///
/// It connects, and connects again for ever when the connection ends: after 1, 2, 4 ... seconds, at most five minutes,
/// each time somewhere in the upper half of that.
///
/// **At least once.** A notification is acknowledged once it stands in ``notifications``, or by ``acknowledge(_:)``
/// where the configuration says so. What was not acknowledged comes again with a later connection; what comes twice all
/// the same is reported once, as long as the object lives and the notification is among the last 512. An application
/// that must not lose what stands in the stream when it crashes acknowledges by itself.
public final class PushDevice: Sendable {
  private enum Life { case created, running, stopping, neverStarted }

  /// The notifications in the order of their arrival. To be read by one task.
  ///
  /// Bounded by `DeviceConfiguration.notificationBuffer`. While it is full, what arrives is not acknowledged and not
  /// lost: the service keeps it, and delivers it with a later connection.
  public let notifications: AsyncStream<ReceivedNotification>
  /// What happens to the connection. To be read by one task; of events that nobody reads the latest 64 are kept.
  public let events: AsyncStream<DeviceEvent>

  private let loop: EventLoop
  /// Touched on the loop only, and before it runs.
  private let core: PushDeviceCore
  private let life = Mutex(Life.created)

  /// - Throws: `DeviceError` where a certificate, a key or a topic cannot be used.
  public init(configuration: DeviceConfiguration) throws {
    guard configuration.notificationBuffer > 0, configuration.keepAliveSeconds >= 0 else {
      throw DeviceError(
        .badConfiguration, "the buffer holds at least one, and time is not negative")
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

  // MARK: Life

  /// Begins to connect, on a thread of its own. Once only.
  public func start() throws {
    try life.withLock { life in
      switch life {
      case .created: life = .running
      case .running: return
      case .stopping, .neverStarted: throw Self.stopped
      }
      loop.start()
      loop.perform { [core] in core.connection?.start() }
    }
  }

  /// Ends the connection, behind everything that was said, and then the two streams. Waits until that is done, which
  /// takes up to two seconds where the service does not answer. The device cannot be started again.
  public func stop() async {
    let before = life.withLock { life in
      let before = life
      life = before == .running || before == .stopping ? .stopping : .neverStarted
      return before
    }
    // A loop that never ran does nothing for anybody.
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

  // MARK: What the device says

  /// The token that the app of this topic gives its provider.
  ///
  /// Waits for a connection as long as it takes; cancel the task to wait no longer. The same token comes every time
  /// until the app is uninstalled, so it may be asked for at each start.
  ///
  /// - Throws: `DeviceError` where the service has no such topic or the device does not run; `CancellationError`.
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

  /// Replaces what the device wants to get.
  public func setTopics(_ topics: DeviceTopics) throws {
    try Self.check(topics)
    perform { $0.setTopics(topics) }
  }

  /// Says how the device is used: notifications of low priority wait until it is active. One that never says so counts
  /// as active.
  public func setPower(_ power: PowerState) {
    perform { $0.connection?.setPower(power) }
  }

  /// Says that a notification was taken, where `DeviceConfiguration.acknowledgesAutomatically` is false. Repeating it
  /// does nothing. Without a connection it is said on the next.
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
        "\(topics.count) topics; a device lists at most \(Limits.courierFilterTopics)")
    }
  }

  static let stopped = DeviceError(.stopped, "the device was stopped")
}

/// Tells requests for tokens apart. Touched on the loop only.
final class TokenRequest: @unchecked Sendable {
  var isCancelled = false
}
