import ApusCommand
import ApusDevice
import ApusLoop
import ApusModel
import ApusTrust
import ApusWire

/// `apus-bench fetch`: connects devices one after the other to fetch their stored notifications.
final class FetchCommand: DeviceConnectionDelegate {
  private let invocation: Invocation
  private let loop = EventLoop(name: "fetch")
  private var devices: [DeviceConnection] = []
  private var begin = ContinuousClock.now
  private var times: [Duration] = []
  private var current = 0
  private var hasAll = false
  private var failure: CommandFailure?

  init(_ invocation: Invocation) { self.invocation = invocation }

  func run() throws(CommandFailure) {
    let address: SocketAddress
    do throws(SocketError) {
      address = try SocketAddress(invocation.value(BenchOptions.connect).description)
    } catch {
      throw invocation.failure(about: BenchOptions.connect, "\(error)")
    }
    let topic = Array(invocation.value(BenchOptions.topic).utf8)
    let shared = DeviceLoop(loop: loop)
    let first = invocation.value(BenchOptions.first)
    let numbers = first..<first + (try invocation.require(BenchOptions.numberedDevices))
    try DeviceIssue(data: invocation.value(BenchOptions.data)).issue(numbers, to: address) {
      let device = DeviceConnection(
        shared: shared, configuration: $0, tag: devices.count, seed: UInt64(devices.count),
        delegate: self)
      device.setTopics(CourierTopics(enabled: [TopicHash(of: topic.span)]))
      devices.append(device)
    }
    connect()
    loop.run()
    let summary = JSONValue.members([
      "devices": .integer(Int64(times.count)),
      "microseconds": .array(times.map { .number($0 / .microseconds(1)) }),
    ])
    print(summary.text)
    if let failure { throw failure }
  }

  private func connect() {
    hasAll = false
    begin = .now
    devices[current].start()
  }

  func deviceConnection(
    _ connection: DeviceConnection, connectedAs token: DeviceToken, isNewToken: Bool,
    serverMilliseconds: UInt64
  ) {}

  func deviceConnection(
    _ connection: DeviceConnection, received notification: CourierNotification,
    payload: Span<UInt8>, collapseID: Span<UInt8>, channelID: Span<UInt8>
  ) -> DeviceVerdict {
    if notification.storage.contains(.lastFromStorage), !hasAll {
      hasAll = true
      times.append(begin.duration(to: .now))
      connection.stop()
    }
    return .acknowledge
  }

  func deviceConnectionFoundNothingStored(_ connection: DeviceConnection) {
    fail("nothing is stored for device \(connection.tag)", connection)
  }

  private func fail(_ text: String, _ connection: DeviceConnection) {
    failure = CommandFailure(.failed, text)
    connection.stop()
  }

  func deviceConnection(
    _ connection: DeviceConnection, disconnected reason: DeviceDisconnection,
    retryMilliseconds: UInt64?
  ) {
    guard case .stopped = reason else {
      return fail("device \(connection.tag): \(reason)", connection)
    }
    current += 1
    guard failure == nil, current < devices.count else { return loop.stop() }
    connect()
  }
}
