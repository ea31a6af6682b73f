import ApusRandom
import ApusDevice
import ApusLoop
import ApusModel
import ApusWire

/// Devices that connect, disconnect, and lose their service. Each arrival of a notification is recorded.
final class CrashDevices: DeviceConnectionDelegate {
  private enum State {
    case away, there, leaving
  }

  /// A device, and the numbers of its last connection.
  private struct Member {
    let device: DeviceConnection
    var place = State.away
    var isConnected = false
    var life = 0
    var connection = 0
  }

  private unowned let run: CrashRun
  private let shared: DeviceLoop
  private let topic: TopicHash
  private var members: [Member] = []
  private(set) var tokens: [DeviceToken?] = []
  private(set) var tokenCount = 0
  private var lastConnection = 0
  /// Why connections ended unexpectedly; only the first few.
  private(set) var complaints: [String] = []

  private var random: SeededRandom
  private let loop: EventLoop

  /// How a device acknowledges notifications.
  enum Manner {
    /// Acknowledges nearly everything at once.
    case prompt
    /// Acknowledges everything after a delay.
    case late
    /// Acknowledges nothing before the last life.
    case silent
  }

  private struct LateAcknowledgement {
    var index: Int
    var connection: Int
    var messageID: UInt32
    var number: Int
    var dueMilliseconds: UInt64
  }

  private var late: [LateAcknowledgement] = []

  init(run: CrashRun, loop: EventLoop, topic: TopicHash, seed: UInt64) {
    self.run = run
    random = SeededRandom(seed: seed)
    self.topic = topic
    self.loop = loop
    shared = DeviceLoop(loop: loop)
  }

  var count: Int { members.count }

  func add(_ configuration: DeviceConnection.Configuration) {
    var configuration = configuration
    // Redeliveries must be visible, so the client must not filter duplicates.
    configuration.client.duplicateWindow = 0
    let device = DeviceConnection(
      shared: shared, configuration: configuration, tag: members.count,
      seed: UInt64(members.count), delegate: self)
    device.setTopics(CourierTopics(enabled: [topic]))
    _ = device.requestToken(topic)
    members.append(Member(device: device))
    tokens.append(nil)
  }

  func isAway(_ index: Int) -> Bool { members[index].place == .away }

  func isConnected(_ index: Int) -> Bool {
    members[index].place == .there && members[index].isConnected
  }

  /// The state of a device's connection, for error messages.
  func text(of index: Int) -> String {
    let member = members[index]
    return "device \(index) is \(member.place) since life \(member.life), \(member.device.stage)"
  }

  /// Connects at once. Without a service the attempt fails at once, and the device is offline again.
  func connect(_ index: Int) {
    guard isAway(index) else { return }
    lastConnection += 1
    members[index].place = .there
    members[index].isConnected = false
    members[index].life = run.account.life
    members[index].connection = lastConnection
    members[index].device.start()
  }

  func leave(_ index: Int) {
    guard members[index].place == .there else { return }
    members[index].place = .leaving
    members[index].device.stop()
  }

  // MARK: Events

  func deviceConnection(
    _ connection: DeviceConnection, connectedAs token: DeviceToken, isNewToken: Bool,
    serverMilliseconds: UInt64
  ) { members[connection.tag].isConnected = true }

  func deviceConnection(
    _ connection: DeviceConnection, appToken token: DeviceToken?, for topic: TopicHash
  ) {
    guard let token else { return complain("device \(connection.tag) got no token") }
    guard tokens[connection.tag] == nil else { return }
    tokens[connection.tag] = token
    tokenCount += 1
  }

  func deviceConnection(
    _ connection: DeviceConnection, disconnected reason: DeviceDisconnection,
    retryMilliseconds: UInt64?
  ) {
    if case .stopped = reason {
      members[connection.tag].place = .away
      return
    }
    switch reason {
    case .refused, .fault, .otherProtocol, .proof:
      complain("device \(connection.tag): \(reason)")
    default: break
    }
    // The run decides when the device reconnects, so that the life of each connection is known.
    members[connection.tag].place = .leaving
    connection.stop()
  }

  private func complain(_ text: String) { if complaints.count < 10 { complaints.append(text) } }

  func deviceConnection(
    _ connection: DeviceConnection, received notification: CourierNotification,
    payload: Span<UInt8>, collapseID: Span<UInt8>, channelID: Span<UInt8>
  ) -> DeviceVerdict {
    let index = connection.tag
    guard let number = CrashPayload.number(in: payload) else {
      run.account.arriveDamaged(at: index)
      return .acknowledge
    }
    // A declined notification must arrive again on a later connection. In the last life nothing is declined.
    let manner = CrashLoad.manner(of: index)
    let isTaken =
      run.isLastLife || manner == .prompt && Int.random(in: 0..<8, using: &random) > 0
    if !isTaken, manner == .late {
      late.append(
        LateAcknowledgement(
          index: index, connection: members[index].connection,
          messageID: notification.messageID, number: number,
          dueMilliseconds: loop.nowMilliseconds + .random(in: 10...500, using: &random)))
    }
    run.account.arrive(
      number, at: index, messageID: notification.messageID, id: notification.id,
      connection: members[index].connection, connectedLife: members[index].life, isTaken: isTaken)
    run.progressed()
    return isTaken ? .acknowledge : .decline
  }

  /// Sends due acknowledgements on the connections on which the notifications arrived.
  func acknowledgeDue(nowMilliseconds: UInt64) {
    guard !late.isEmpty else { return }
    var waiting: [LateAcknowledgement] = []
    for entry in late {
      if entry.dueMilliseconds > nowMilliseconds {
        waiting.append(entry)
      } else if isConnected(entry.index), members[entry.index].connection == entry.connection {
        run.account.take(entry.number)
        members[entry.index].device.acknowledge(entry.messageID)
      }
    }
    late = waiting
  }
}

/// Payloads that contain their number and in which any damaged byte is detected.
enum CrashPayload {
  private static let head = Array(#"{"aps":{"alert":"The 17:42 leaves from platform 4"},"n":"#.utf8)

  static func bytes(_ number: Int) -> [UInt8] {
    // Of many lengths, to detect mixed-up records.
    let filler = [UInt8](repeating: UInt8(ascii: "x"), count: number &* 7919 % 300)
    return head + Array("\(number),\"x\":\"".utf8) + filler + Array("\"}".utf8)
  }

  /// The number in a payload; nil if `bytes` cannot have made it.
  static func number(in payload: Span<UInt8>) -> Int? {
    guard payload.count > head.count else { return nil }
    var number = 0
    for index in head.count..<payload.count {
      let digit = payload[index] &- 0x30
      guard digit < 10, number < Int(UInt32.max) else { break }
      number = number * 10 + Int(digit)
    }
    let expected = bytes(number)
    guard expected.count == payload.count else { return nil }
    for index in expected.indices where expected[index] != payload[index] { return nil }
    return number
  }
}
