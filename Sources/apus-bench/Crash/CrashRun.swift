import ApusClient
import ApusCommand
import ApusDevice
import ApusLoop
import ApusModel
import Glibc

/// Lives of a service, one after the other, each ended by SIGKILL, under a load that never waits for them; then one
/// life in which everything that was accepted has to arrive. Confined to its loop.
final class CrashRun {
  private enum Stage {
    /// The first life: every device gets its token.
    case registering
    case starting, serving
    /// Killed; the next life begins at that time.
    case dead(until: UInt64)
    /// The last life: nothing is sent any more, and all devices are there.
    case settling
    /// Asked to end by SIGTERM.
    case stopping
  }

  let seed: UInt64
  /// Of everything that is stored: far beyond the end of the run.
  let expirationSeconds = UInt32(clamping: time(nil)) + 86_400
  var account: CrashAccount
  private(set) var killCounts: [String: Int] = [:]
  private(set) var failures: [String] = []

  let setting: CrashSetting
  private let kills: Int
  private let loop: EventLoop
  private var load: CrashLoad?
  private var random: SeededGenerator
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
  /// Without any progress for so long, what is missing is lost.
  private static let patienceMilliseconds: UInt64 = 10_000
  private static let startMilliseconds: UInt64 = 60_000
  /// A kill that waits for something comes after this time at the latest.
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
    random = SeededGenerator(seed: seed)
  }

  /// Returns when the loop was stopped by the run itself or by `interrupt`.
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
    fail("it was interrupted")
    loop.stop()
  }

  /// Something went wrong that has nothing to do with the balance.
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

  /// Whether the service is not killed any more.
  var isLastLife: Bool { killCount >= kills }

  /// The flood of this life has begun.
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
        fail("the service does not end on SIGTERM; see \(setting.log)")
        loop.stop()
      }
    }
  }

  private func ended(_ code: Int32) {
    var isStopping = false
    if case .stopping = stage { isStopping = true }
    if !isStopping || code != 0 {
      fail("the service ended \(isStopping ? "" : "by itself ")with \(code); see \(setting.log)")
    }
    loop.stop()
  }

  private func checkStart(_ elapsed: UInt64) {
    guard elapsed > Self.startMilliseconds else { return }
    fail("the service did not open its doors, or not to all devices; see \(setting.log)")
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
    // What arrived may account for all that did not, while the service still has some of that to deliver.
    let isSettled =
      load.isQuiet && account.missing().isEmpty && mailbox.isEmpty(nowMilliseconds: now)
    guard isLate || isSettled else { return }
    if !load.isQuiet { fail("not every device or sender came to rest: \(load.unrest)") }
    account.close()
    for complaint in load.complaints { fail(complaint) }
    mailbox.close()
    enter(.stopping)
    load.leave()
    service?.signal(SIGTERM)
  }
}
