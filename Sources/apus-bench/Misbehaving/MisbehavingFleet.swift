import ApusRandom
import ApusCommand
import ApusDevice
import ApusLoop
import ApusModel
import ApusTrust
import ApusWire
import Glibc

/// Misbehaving devices with valid certificates, on one loop. Confined to it.
final class MisbehavingFleet: DeviceCrowd {
  var failure: CommandFailure? { nil }
  var onRegistration: () -> Void = {}
  let how: Misbehaviour
  let loop: EventLoop
  let memory = BinaryLinkMemory()
  let topic: TopicHash
  var counts = FleetStatus()

  private let settings: FleetSettings
  private let sources: [SocketAddress]
  private var links: [MisbehavingLink] = []
  private var tokens: TokenBook
  private var timer: LoopTimer?
  private var lastSecond: UInt64 = 0
  private var random = SeededRandom(seed: UInt64(getpid()))

  /// Period of the tick, in which each one-byte writer sends one byte.
  private static let tickMilliseconds: UInt64 = 2
  /// The default for the longest wait before a failed link retries.
  private static let retryMilliseconds = 1000

  init(
    _ how: Misbehaviour, loop: EventLoop, settings: FleetSettings, sources: [SocketAddress]
  ) {
    self.how = how
    self.loop = loop
    self.settings = settings
    self.sources = sources
    let name = Array(settings.topic.utf8)
    topic = TopicHash(of: name.span)
    tokens = TokenBook(deviceCount: settings.numbers.count)
    counts[.devices] = UInt64(settings.numbers.count)
  }

  func add(_ configuration: DeviceConnection.Configuration) {
    guard case .addresses(let addresses) = configuration.endpoint else { return }
    let index = links.count
    links.append(
      MisbehavingLink(
        tag: index, context: configuration.context, identity: configuration.identity,
        address: addresses[0],
        source: sources.isEmpty ? nil : sources[index % sources.count], owner: self))
  }

  // MARK: DeviceCrowd

  func start() {
    let timer = LoopTimer(loop: loop) { [unowned self] in tick() }
    timer.start(
      afterMilliseconds: Self.tickMilliseconds, repeatMilliseconds: Self.tickMilliseconds)
    self.timer = timer
    tick()
  }

  func stop() {
    for link in links { link.abort() }
    loop.stop()
  }

  func status() -> FleetStatus {
    var status = counts
    status[.connected] = links.reduce(0) { $0 + ($1.stage == .settled ? 1 : 0) }
    status[.connecting] = links.reduce(0) { $0 + ($1.isConnecting ? 1 : 0) }
    return status
  }

  func cut() { counts.latency.removeAll() }

  func breakConnections() { for link in links { link.abort() } }

  // MARK: Time

  private func tick() {
    let now = loop.nowMilliseconds
    let isNewSecond = now / 1000 != lastSecond
    lastSecond = now / 1000
    var room = settings.atOnce - links.reduce(0) { $0 + ($1.isConnecting ? 1 : 0) }
    for link in links {
      switch link.stage {
      case .waiting(let due):
        guard due <= now, room > 0 else { continue }
        room -= 1
        link.connect()
      case .connecting, .handshaking: continue
      case .settled:
        if how == .oneByteWriter { link.writeByte() }
        if how == .slowReader, isNewSecond { link.readByte() }
      }
    }
  }

  /// When an ended link retries.
  func retryTime() -> UInt64 {
    let longest = UInt64(settings.reconnectMilliseconds ?? Self.retryMilliseconds)
    return loop.nowMilliseconds + UInt64.random(in: 1...longest, using: &random)
  }

  // MARK: Events of links

  func registered(_ link: MisbehavingLink, _ token: DeviceToken) {
    guard tokens.add(token, of: link.tag) else { return }
    counts[.registered] += 1
    guard tokens.isComplete else { return }
    if let path = settings.tokensPath {
      do throws(CommandFailure) { try tokens.write(to: path) } catch {
        report(error.text(speaker: "apus-bench fleet"))
      }
    }
    onRegistration()
    if settings.exitsAfterRegistration { stop() }
  }
}
