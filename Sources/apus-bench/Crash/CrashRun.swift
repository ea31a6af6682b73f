import ApusRandom
import ApusClient
import ApusCommand
import ApusDevice
import ApusLoop
import ApusModel
import Glibc

/// Runs lives of a service, each ended by SIGKILL, under a load that never waits for them; then a last life in which
/// everything accepted must arrive. Confined to its loop.
final class CrashRun {
  private enum Stage {
    /// The first life, in which every device gets its token.
    case registering
    case starting, serving
    /// Killed; the next life begins at the given time.
    case dead(until: UInt64)
    /// The last life: nothing is sent, and all devices are connected.
    case settling
    /// Shutting down after SIGTERM.
    case stopping
  }

  let seed: UInt64
  /// Expiration of all stored notifications, far beyond the end of the run.
  let expirationSeconds = UInt32(clamping: time(nil)) + 86_400
  var account: CrashAccount
  private(set) var killCounts: [String: Int] = [:]
  private(set) var failures: [String] = []

  let setting: CrashSetting
  private let kills: Int
  private let loop: EventLoop
  private var load: CrashLoad?
  private var random: SeededRandom
  private var stage = Stage.registering
  private var plan = CrashPlan.serving(milliseconds: 0)
  private var service: ServiceProcess?
  private var ticker: LoopTimer?
  private var killTimer: LoopTimer?
  private var stageSince: UInt64 = 0
  private var acceptedInLife = 0
  private var lastProgress: UInt64 = 0
  private let mailbox: MailboxWatch

  private static let tickMilliseconds: UInt64 = 4
  /// After this time without progress, missing notifications are lost.
  private static let patienceMilliseconds: UInt64 = 10_000
  private static let startMilliseconds: UInt64 = 60_000
  /// Maximum delay of a kill that waits for an event.
  private static let longestServingMilliseconds: UInt64 = 2000

  init(
    _ setting: CrashSetting, kills: Int, seed: UInt64, retention: Int, loop: EventLoop
  ) {
    account = CrashAccount(aloneDevices: 0..<CrashLoad.aloneCount, retention: retention)
    self.setting = setting
    mailbox = MailboxWatch(data: setting.data)
    self.kills = kills
    self.seed = seed
    self.loop = loop
    random = SeededRandom(seed: seed)
  }

  /// Returns when the run or `interrupt` has stopped the loop.
  func perform() throws(CommandFailure) {
    let load = CrashLoad(run: self, setting: setting, loop: loop, seed: random.next())
    try load.issueDevices()
    self.load = load
    killTimer = LoopTimer(loop: loop) { [unowned self] in killNow() }
    ticker = LoopTimer(loop: loop) { [unowned self] in tick() }
    ticker?.start(afterMilliseconds: 0, repeatMilliseconds: Self.tickMilliseconds)
    beginLife()
    loop.run()
    service?.signal(SIGKILL)
    service?.wait()
  }

  func interrupt() {
    fail("interrupted")
    loop.stop()
  }

  /// Records a failure other than a violation.
  func fail(_ text: String) {
    if failures.count < 20 { failures.append("life \(account.life): \(text)") }
  }

  func accepted(_ number: Int) {
    account.end(number, .accepted)
    acceptedInLife += 1
    lastProgress = loop.nowMilliseconds
    if case .answered(let count) = plan, case .serving = stage, acceptedInLife >= count {
      killNow()
    }
  }

  func progressed() { lastProgress = loop.nowMilliseconds }

  /// Whether there are no more kills.
  var isLastLife: Bool { killCount >= kills }

  /// Starts the kill timer when the flood of this life begins.
  func flooding(for milliseconds: UInt64) { killTimer?.start(afterMilliseconds: milliseconds) }

  private var killCount: Int { killCounts.values.reduce(0, +) }

  private func enter(_ stage: Stage) {
    self.stage = stage
    stageSince = loop.nowMilliseconds
    lastProgress = loop.nowMilliseconds
  }

  // MARK: Lives

  private func beginLife() {
    account.life += 1
    acceptedInLife = 0
    plan = CrashPlan(using: &random)
    do throws(CommandFailure) {
      service = try setting.start(workers: 1 + account.life % 2)
    } catch {
      fail("\(error)")
      return loop.stop()
    }
    if case .registering = stage { return enter(.registering) }
    enter(.starting)
    if !isLastLife, case .starting(let milliseconds) = plan {
      killTimer?.start(afterMilliseconds: milliseconds)
    }
  }

  private func killNow() {
    switch stage {
    case .starting, .serving: break
    case .registering, .dead, .settling, .stopping: return
    }
    killTimer?.stop()
    service?.signal(SIGKILL)
    service?.wait()
    killCounts[plan.name, default: 0] += 1
    load?.serviceDied()
    if killCount % 10 == 0 || killCount == kills {
      report("  \(killCount) kills, \(account.entries.count) notifications sent\n")
    }
    enter(.dead(until: loop.nowMilliseconds + .random(in: 0...20, using: &random)))
  }

  // MARK: Ticks

  private func tick() {
    load?.devices.acknowledgeDue(nowMilliseconds: loop.nowMilliseconds)
    if let code = service?.ended() { return ended(code) }
    let elapsed = loop.nowMilliseconds - stageSince
    switch stage {
    case .registering:
      if setting.isOpen, load?.register() == true { serve() }
      checkStart(elapsed)
    case .starting:
      load?.tickStarting()
      if setting.isOpen { isLastLife ? settle() : serve() }
      checkStart(elapsed)
    case .serving:
      load?.tickServing(plan)
      if elapsed > Self.longestServingMilliseconds { killNow() }
    case .dead(let until): if loop.nowMilliseconds >= until { beginLife() }
    case .settling: tickSettling()
    case .stopping:
      if elapsed > Self.startMilliseconds {
        fail("the service does not shut down on SIGTERM; see \(setting.log)")
        loop.stop()
      }
    }
  }

  private func ended(_ code: Int32) {
    var isStopping = false
    if case .stopping = stage { isStopping = true }
    if !isStopping || code != 0 {
      fail("the service ended \(isStopping ? "" : "unexpectedly ")with \(code); see \(setting.log)")
    }
    loop.stop()
  }

  private func checkStart(_ elapsed: UInt64) {
    guard elapsed > Self.startMilliseconds else { return }
    fail(
      "the service did not open its listeners, or not all devices registered; see \(setting.log)")
    loop.stop()
  }

  private func serve() {
    enter(.serving)
    load?.serviceOpened()
    if case .serving(let milliseconds) = plan { killTimer?.start(afterMilliseconds: milliseconds) }
  }

  // MARK: The end

  private func settle() {
    killTimer?.stop()
    enter(.settling)
  }

  private func tickSettling() {
    guard let load else { return }
    load.gather()
    let now = loop.nowMilliseconds
    let isLate = now - lastProgress > Self.patienceMilliseconds
    // Even if every missing notification counts as replaced, the service may still have some to deliver.
    let isSettled =
      load.isQuiet && account.missing().isEmpty && mailbox.isEmpty(nowMilliseconds: now)
    guard isLate || isSettled else { return }
    if !load.isQuiet { fail("some devices or providers did not finish: \(load.unrest)") }
    account.close()
    for complaint in load.complaints { fail(complaint) }
    mailbox.close()
    enter(.stopping)
    load.leave()
    service?.signal(SIGTERM)
  }
}
