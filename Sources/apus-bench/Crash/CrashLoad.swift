import ApusRandom
import ApusClient
import ApusCommand
import ApusDevice
import ApusLoop
import ApusModel
import ApusWire

/// Devices that connect and disconnect, and providers that send to them, in steps of a few milliseconds.
///
/// There are two kinds of devices. Those of the first range have one notification at a time: the next one is sent
/// after it has arrived, so nothing can be replaced. The others get many at once, connected or offline, and the newest
/// of the stored ones must arrive.
final class CrashLoad {
  static let aloneCount = 120
  static let busyCount = 10
  static let senderCount = 4
  private static let all = 0..<aloneCount + busyCount
  private static let busy = aloneCount..<aloneCount + busyCount
  /// Some of the busy devices acknowledge late, and some acknowledge nothing before the last life.
  static func manner(of device: Int) -> CrashDevices.Manner {
    switch device - aloneCount {
    case 0, 1: .silent
    case 2, 3: .late
    default: .prompt
    }
  }

  /// Number of devices that register at the same time.
  private static let atOnce = 32

  let devices: CrashDevices
  private unowned let run: CrashRun
  private let setting: CrashSetting
  private let senders: [CrashSender]
  private let pusher: CrashPusher
  private var random: SeededRandom
  /// The last notification for each device of the first range.
  private var last: [Int?] = Array(repeating: nil, count: aloneCount)
  private var hasFlooded = false

  init(run: CrashRun, setting: CrashSetting, loop: EventLoop, seed: UInt64) {
    self.run = run
    self.setting = setting
    random = SeededRandom(seed: seed)
    devices = CrashDevices(
      run: run, loop: loop, topic: setting.topicHash, seed: random.next())
    pusher = CrashPusher(
      run: run, loop: loop, configuration: setting.pushing, topic: setting.topic)
    let memory = BinaryLinkMemory()
    senders = (0..<Self.senderCount).map { index in
      let isSilent = index % 2 == 0
      return CrashSender(
        run: run, listener: isSilent ? .silent : .confirming, loop: loop,
        endpoint: isSilent ? setting.silent : setting.confirming, memory: memory, stream: index)
    }
    pusher.load = self
    for sender in senders { sender.load = self }
  }

  func issueDevices() throws(CommandFailure) {
    try DeviceIssue(data: setting.data).issue(Self.all, to: setting.courier) {
      devices.add($0)
    }
  }

  func tokenBytes(of device: Int) -> [UInt8] { devices.tokens[device]?.bytes ?? [] }

  // MARK: Lives

  /// Connects devices that have no token yet. Returns true when all have one.
  func register() -> Bool {
    var waiting = Self.all.count { !devices.isAway($0) && devices.tokens[$0] == nil }
    for device in Self.all where waiting < Self.atOnce {
      guard devices.tokens[device] == nil, devices.isAway(device) else { continue }
      devices.connect(device)
      waiting += 1
    }
    return devices.tokenCount == Self.all.count
  }

  func serviceOpened() {
    hasFlooded = false
    do throws(ClientConfigurationError) {
      try pusher.renew()
    } catch {
      run.fail("\(error)")
    }
  }

  func serviceDied() { pusher.abandon() }

  // MARK: Steps

  /// A step before the listeners are open: connections are refused or wait.
  func tickStarting() {
    if Bool.random(using: &random) { devices.connect(.random(in: Self.all, using: &random)) }
    connectSenders()
  }

  func tickServing(_ plan: CrashPlan) {
    for _ in 0..<3 { moveDevice(.random(in: Self.all, using: &random)) }
    moveDevice(.random(in: Self.busy, using: &random))
    connectSenders()
    if case .flooded(let count, let milliseconds) = plan, !hasFlooded { flood(count, milliseconds) }
    for sender in senders where sender.isOpen && Int.random(in: 0..<3, using: &random) == 0 {
      sender.send(to: targets(.random(in: 1...20, using: &random)), isStored: drawStored())
      if Int.random(in: 0..<4, using: &random) == 0 { sender.ask() }
    }
    for device in targets(.random(in: 0...6, using: &random)) {
      pusher.send(to: device, isStored: drawStored(), collapses: drawCollapses(device))
    }
  }

  /// Whether to use a collapse id. Collapse ids follow other rules than slots, so only one device of each manner uses
  /// them. Some of these notifications must not be stored, and must not replace one that is.
  private func drawCollapses(_ device: Int) -> Bool {
    switch device - Self.aloneCount {
    case 0, 2, 4: Int.random(in: 0..<4, using: &random) == 0
    default: false
    }
  }

  private func drawStored() -> Bool { Int.random(in: 0..<8, using: &random) > 0 }

  private func moveDevice(_ device: Int) {
    if devices.isAway(device) {
      if Bool.random(using: &random) { devices.connect(device) }
    } else if Int.random(in: 0..<6, using: &random) == 0 {
      devices.leave(device)
    }
  }

  private func connectSenders() {
    for sender in senders where sender.isIdle && Int.random(in: 0..<4, using: &random) == 0 {
      do throws(CommandFailure) {
        try sender.connect()
      } catch {
        run.fail("\(error)")
      }
    }
  }

  private func flood(_ count: Int, _ milliseconds: UInt64) {
    guard let sender = senders.filter(\.isOpen).randomElement(using: &random) else { return }
    hasFlooded = true
    sender.send(
      to: (0..<count).map { _ in .random(in: Self.busy, using: &random) }, isStored: true)
    sender.ask()
    run.flooding(for: milliseconds)
  }

  /// Devices to send to: half of them from the first range, if their last notification has arrived.
  private func targets(_ count: Int) -> [Int] {
    var targets: [Int] = []
    for _ in 0..<count {
      let device = Int.random(
        in: Bool.random(using: &random) ? 0..<Self.aloneCount : Self.busy, using: &random)
      if device >= Self.aloneCount || (isFree(device) && !targets.contains(device)) {
        targets.append(device)
      }
    }
    return targets
  }

  /// Whether no accepted or possibly accepted notification is on its way to the device.
  private func isFree(_ device: Int) -> Bool {
    guard let number = last[device] else { return true }
    let entry = run.account.entries[number]
    switch entry.outcome {
    case .open: return false
    case .accepted: return entry.timesTaken > 0 || !entry.isStored
    case .refused, .unknown: return true
    }
  }

  /// Records the last notification sent to a device.
  func sent(_ number: Int, to device: Int) {
    if device < Self.aloneCount { last[device] = number }
  }

  // MARK: The end

  /// Reconnects all devices.
  func gather() {
    var connecting = Self.all.count { !devices.isAway($0) && !devices.isConnected($0) }
    for device in Self.all where devices.isAway(device) && connecting < Self.atOnce {
      devices.connect(device)
      connecting += 1
    }
  }

  func leave() {
    pusher.abandon()
    for device in Self.all { devices.leave(device) }
  }

  var isQuiet: Bool {
    pusher.underWay == 0 && senders.allSatisfy(\.isQuiet)
      && Self.all.allSatisfy(devices.isConnected)
  }

  var unrest: String {
    let missing = Self.all.filter { !devices.isConnected($0) }
    return "open pushes: \(pusher.underWay), busy senders: \(senders.count { !$0.isQuiet }), "
      + "devices: \(missing.count)" + missing.prefix(5).map { "; \(devices.text(of: $0))" }.joined()
  }

  var complaints: [String] { devices.complaints }
}
