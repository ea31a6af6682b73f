import ApusCore
import ApusDirectory
import ApusModel
import ApusRelay
import ApusServer
import Synchronization

/// A relay that breaks a rule, for canaries.
final class FaultyRelay: UpstreamRelay {
  private let relay: Relay
  private let canary: SimulationCanary
  private let host = Mutex<RelayHost?>(nil)
  /// The payloads that came.
  private let seen = Mutex<Set<[UInt8]>>([])

  init(_ relay: Relay, _ canary: SimulationCanary) {
    (self.relay, self.canary) = (relay, canary)
  }

  func trustReplaced(_ trust: Trust) { relay.trustReplaced(trust) }

  func start(_ host: RelayHost) throws {
    self.host.withLock { $0 = host }
    try relay.start(host)
  }

  func forward(
    _ notification: RelayedNotification, _ done: @escaping @Sendable (UpstreamAnswer) -> Void
  ) { relay.forward(notification, done) }

  func keep(_ notification: KeptNotification) -> Bool {
    guard canary == .swallowsResends, case .frame(let answer) = notification.waiter,
      !seen.withLock({ $0.insert(notification.notification.payload).inserted })
    else { return relay.keep(notification) }
    host.withLock { $0 }?.deliver(Int(answer.worker), [Verdict(answer: answer, rejection: nil)])
    return true
  }

  func keep(contentsOf notifications: inout [KeptNotification]) {
    while let first = notifications.first, keep(first) { notifications.removeFirst() }
  }

  func admit(_ app: AppID) -> Int { relay.admit(app) }

  func charge(_ app: AppID) -> Int { relay.charge(app) }

  var isFull: Bool { relay.isFull }

  func settled(_ refusal: RelayRefusal, isReported: Bool) {
    relay.settled(refusal, isReported: isReported || canary == .listsNoBadTokens)
  }

  func report(_ done: @escaping @Sendable ([RelayFigures]) -> Void) { relay.report(done) }

  func reportCounters(_ done: @escaping @Sendable ([TopicCounters]) -> Void) {
    relay.reportCounters(done)
  }

  func connections() -> [(upstream: String, count: Int)] { relay.connections() }

  func obey(_ command: RelayCommand, _ app: AppID) {
    if canary == .staysPaused, command == .resume { return }
    if canary == .ignoresPause, command == .pause { return }
    relay.obey(command, app)
  }

  func stop() {
    relay.stop()
    host.withLock { $0 = nil }
  }
}
