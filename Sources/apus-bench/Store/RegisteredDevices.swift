import ApusCommand
import ApusModel
import ApusStore
import ApusTrust
import ApusWire
import Glibc

/// Devices that the service knows although they never connected, numbered as in a fleet.
struct RegisteredDevices {
  /// The id of the first app of `apus init`.
  static let app = AppID(1)
  private static let generation: UInt16 = 1

  private let sealer: TokenSealer

  /// - Parameter data: The service's data directory.
  init(data: String) throws(CommandFailure) {
    let path = "\(data)/sealing.keys"
    var keys: [TokenSealingKeys.Key] = []
    for line in try readText(path).split(separator: "\n") where !line.hasPrefix("#") {
      let words = line.split(separator: " ")
      guard words.count == 3, words[1] == "=", let id = UInt8(words[0]),
        let key = DeviceToken(hex: Array(words[2].utf8).span)
      else { throw CommandFailure(.configuration, "\(path) has a line that is not a key") }
      // A key has the same size as a token.
      keys.append(TokenSealingKeys.Key(id: id, bytes: key.bytes))
    }
    do {
      sealer = TokenSealer(try TokenSealingKeys(keys))
    } catch {
      throw CommandFailure(.configuration, "\(path): \(error)")
    }
  }

  static let topic = TopicKey(app: app)

  func token(_ number: Int) -> DeviceToken {
    sealer.seal(
      TokenClaims(
        device: Fleet.deviceID(number), topic: Self.topic, environment: .production,
        generation: Self.generation))
  }

  /// The record of a device that connected once and registered the topic; if `isRemoved`, it has unregistered it since.
  static func record(milliseconds: Int64, isRemoved: Bool) -> DeviceRecord {
    DeviceRecord(
      fingerprint: KeyFingerprint(words: (0, 0, 0, 0)),
      topics: [
        TopicRegistration(
          topic: topic, generation: generation, state: isRemoved ? .unlisted : .enabled,
          wasListed: true,
          stateSinceMilliseconds: milliseconds, generationSinceMilliseconds: milliseconds)
      ])
  }
}

/// `apus-bench register`
struct RegisterCommand {
  let invocation: Invocation
  private static let perGroup = 1000
  private static let removedSeconds: Int64 = 86_400

  init(_ invocation: Invocation) { self.invocation = invocation }

  func run() throws(CommandFailure) {
    let count = try invocation.require(BenchOptions.numberedDevices)
    let writer = try GroupWriter("\(invocation.value(BenchOptions.data))/store")
    var record: [UInt8] = []
    // Removed long ago, so that the grace time of the tokens is over.
    let isRemoved = invocation.isOn(BenchOptions.removed)
    let since = Int64(time(nil)) - (isRemoved ? Self.removedSeconds : 0)
    RegisteredDevices.record(milliseconds: since * 1000, isRemoved: isRemoved)
      .encode(into: &record)
    let begin = ContinuousClock.now
    for start in stride(from: 0, to: count, by: Self.perGroup) {
      var group = writer.makeGroup()
      for number in start..<min(start + Self.perGroup, count) {
        let key = DeviceRecord.key(Fleet.deviceID(number), .production)
        group.put(.devices, key: key.span, value: record.span)
      }
      try writer.write(group)
    }
    try writer.settle()
    writer.close()
    try printTokens(count)
    let summary = JSONValue.members([
      "devices": .integer(Int64(count)), "seconds": .number((.now - begin) / .seconds(1)),
    ])
    print(summary.text)
  }

  private func printTokens(_ count: Int) throws(CommandFailure) {
    guard let path = invocation[BenchOptions.printTokens] else { return }
    let devices = try RegisteredDevices(data: invocation.value(BenchOptions.data))
    try writeText((0..<count).map { devices.token($0).hex + "\n" }.joined(), to: path)
  }
}
