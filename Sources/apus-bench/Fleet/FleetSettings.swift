import ApusCommand
import ApusLoop
import ApusModel
import ApusWire
import Glibc

/// The settings of a fleet, or of a part of it in a child process.
struct FleetSettings {
  var data: String
  var numbers: Range<Int>
  var address: HostPort
  var topic: String
  var sources: [String]
  var tokensPath: String?
  var exitsAfterRegistration: Bool
  var atOnce: Int
  var reconnectMilliseconds: Int?
  var keepAliveSeconds: Int
  var resumes: Bool
  var statusPath: String?
  var misbehaviour: Misbehaviour?
  /// Whether the devices have the topic for Live Activities too.
  var hasActivities: Bool
  /// The ids of the channels that each device subscribes to, as text.
  var channels: [String]
  var processCount: Int

  /// Descriptors of a process besides those of devices.
  private static let otherDescriptors = 50
  /// Ports of a source address for connections to one destination: the default of `net.ipv4.ip_local_port_range`.
  private static let portsPerSource = 28_000

  init(_ invocation: Invocation) throws(CommandFailure) {
    data = invocation.value(BenchOptions.data)
    let first = invocation.value(BenchOptions.first)
    numbers = first..<first + (try invocation.require(BenchOptions.devices))
    address = invocation.value(BenchOptions.connect)
    topic = invocation.value(BenchOptions.topic)
    sources = invocation.all(BenchOptions.fleetSource)
    tokensPath = invocation[BenchOptions.printTokens]
    exitsAfterRegistration = invocation.isOn(BenchOptions.exitAfterRegistration)
    atOnce = invocation.value(BenchOptions.atOnce)
    reconnectMilliseconds = invocation[BenchOptions.reconnect]
    keepAliveSeconds = invocation.value(BenchOptions.keepAlive)
    resumes = invocation.value(BenchOptions.fleetResumes)
    statusPath = invocation[BenchOptions.status]
    misbehaviour = invocation[BenchOptions.misbehaviour]
    channels = invocation.all(BenchOptions.subscriptions)
    hasActivities = invocation.isOn(BenchOptions.liveActivities) || !channels.isEmpty
    processCount = min(invocation.value(BenchOptions.processes), numbers.count)
    try check(invocation)
  }

  private func check(_ invocation: Invocation) throws(CommandFailure) {
    let room = descriptorLimit() - Self.otherDescriptors
    let each = (numbers.count + processCount - 1) / processCount
    guard each <= room else {
      throw invocation.failure(
        about: BenchOptions.devices,
        "a process has descriptors for only \(room) of its \(each) devices",
        remedy: "Give --processes \((numbers.count + room - 1) / room).")
    }
    let sourceCount = max(1, sources.count)
    guard numbers.count <= sourceCount * Self.portsPerSource else {
      let needed = (numbers.count + Self.portsPerSource - 1) / Self.portsPerSource
      throw invocation.failure(
        about: BenchOptions.devices,
        "too few source addresses (\(sourceCount)) for the ports of \(numbers.count) devices",
        remedy: "Give \(needed) of --source, such as 127.0.0.2.")
    }
    if misbehaviour != nil, misbehaviour != .die, hasActivities {
      throw invocation.failure(
        about: BenchOptions.misbehaviour, "only well-behaved devices have Live Activities",
        remedy: "Leave out --live-activities and --channel.")
    }
    _ = try sourceAddresses(invocation)
    _ = try serviceAddress(invocation)
  }

  func serviceAddress(_ invocation: Invocation) throws(CommandFailure) -> SocketAddress {
    do throws(SocketError) { return try SocketAddress(address.description) } catch {
      throw invocation.failure(about: BenchOptions.connect, "\(error)")
    }
  }

  func sourceAddresses(_ invocation: Invocation) throws(CommandFailure) -> [SocketAddress] {
    var addresses: [SocketAddress] = []
    for text in sources {
      do throws(SocketError) {
        addresses.append(try SocketAddress(text.contains(":") ? "[\(text)]:0" : "\(text):0"))
      } catch {
        throw invocation.failure(
          about: BenchOptions.fleetSource, "\"\(text)\" is not a numeric address")
      }
    }
    return addresses
  }

  /// What each device subscribes to; nil for nothing.
  ///
  /// - Parameter topic: The app's topic for Live Activities.
  func subscriptions(topic: [UInt8]) -> CourierSubscriptions? {
    guard !channels.isEmpty else { return nil }
    let marks = channels.compactMap { Base64.decode($0.utf8.span) }.map {
      CourierChannelMark(id: $0)
    }
    return CourierSubscriptions(topics: [CourierChannelTopic(topic: topic, subscribed: marks)])
  }

  // MARK: Parts

  /// The settings of the process with this index, of `processCount`.
  func part(_ index: Int) -> FleetSettings {
    var part = self
    let bounds = [index, index + 1].map { numbers.lowerBound + numbers.count * $0 / processCount }
    part.numbers = bounds[0]..<bounds[1]
    // Several addresses for each process if there are enough, else one in turn.
    if sources.count > processCount {
      part.sources = sources.indices.filter { $0 % processCount == index }.map { sources[$0] }
    } else if !sources.isEmpty {
      part.sources = [sources[index % sources.count]]
    }
    part.tokensPath = tokensPath.map { "\($0).\(index)" }
    part.statusPath = nil
    part.processCount = 1
    return part
  }

  /// The equivalent command line.
  var arguments: [String] {
    var arguments = [
      "fleet", "--data", data, "--devices", "\(numbers.count)", "--first", "\(numbers.lowerBound)",
      "--connect", "\(address)", "--topic", topic, "--processes", "\(processCount)",
      "--handshakes", "\(atOnce)", "--keep-alive-seconds", "\(keepAliveSeconds)",
      "--resume", resumes ? "on" : "off",
    ]
    for source in sources { arguments += ["--source", source] }
    if let tokensPath { arguments += ["--print-tokens", tokensPath] }
    if exitsAfterRegistration { arguments.append("--exit-after-registration") }
    if let reconnectMilliseconds {
      arguments += ["--reconnect-milliseconds", "\(reconnectMilliseconds)"]
    }
    if let statusPath { arguments += ["--status", statusPath] }
    if hasActivities { arguments.append("--live-activities") }
    for channel in channels { arguments += ["--channel", channel] }
    if let misbehaviour { arguments += ["--misbehave", misbehaviour.rawValue] }
    return arguments
  }
}
