import ApusCore
package import ApusDirectory
package import ApusLog
package import ApusLoop
import ApusModel
import ApusTrust
package import ApusWire
import Synchronization

/// Which devices without a certificate can get one over the courier listener.
package enum EnrolmentMode: Sendable, Hashable {
  /// Devices with an enrolment code, and devices that the operator approves.
  case all
  /// Devices with an enrolment code.
  case codes
  /// None.
  case off
}

/// The bounded queue of certificate requests from all workers. They are decided on a thread of its own, because each
/// needs syncs of the disk and signatures. It also limits the rate of requests, overall and per address.
package final class EnrolmentQueue: Sendable {
  private struct State {
    var waiting = 0
    var all = RateLimit.Bucket()
    /// Failures of each address that still count against it.
    var failures: [SocketAddress: RateLimit.Bucket] = [:]
    var prunedSeconds: Int64 = 0
    var refusals: [EnrolmentEvent.Refusal: UInt64] = [:]
  }

  private let loop: EventLoop
  private let enroller: Enroller
  private let log: Log
  private let audit: AuditLog
  private let state = Mutex(State())

  private static let failureLimit = RateLimit(
    capacity: Limits.enrolmentFailuresPerAddress,
    refill: Limits.enrolmentFailuresPerAddressPerMinute, perSeconds: 60)
  private static let allLimit = RateLimit(
    capacity: Limits.enrolments, refill: Limits.enrolmentsPerSecond)
  private static let pruneSeconds: Int64 = 3600

  /// - Parameters:
  ///   - days: Days for which issued certificates are valid.
  ///   - labels: Those that the service reads; nil makes its own.
  package init(
    _ directory: DataDirectory, _ mode: EnrolmentMode, days: Int, labels: LabelRegister? = nil,
    _ audit: AuditLog, log: Log
  ) {
    self.audit = audit
    loop = EventLoop(name: "apus-enrolment")
    self.log = log
    enroller = Enroller(
      directory: directory, mode: mode, days: days, labels: labels ?? LabelRegister(directory))
  }

  package func start() {
    loop.start()
    loop.perform { [self] in prune(nowSeconds: EventLoop.wallClockMilliseconds() / 1000) }
  }

  package func stop() {
    loop.stop()
    loop.join()
  }

  package static let notOffered = CourierIssuance(
    status: .refused, reason: .notOffered,
    text: Array("this service does not issue certificates to devices".utf8))

  /// Submits a request. `reply` is called once: before this returns if the request is refused without a decision,
  /// otherwise on the queue's thread.
  package func submit(
    _ query: EnrolmentQuery, atMilliseconds now: Int64,
    reply: @escaping @Sendable (CourierIssuance) -> Void
  ) {
    if case .enrolment = query.kind, enroller.mode == .off {
      count(.notOffered)
      return reply(Self.notOffered)
    }
    if let waitMilliseconds = admit(query.site, now) {
      report(.refused(.slowedDown, ""), at: query.site, nowSeconds: query.nowSeconds)
      return reply(
        CourierIssuance(
          status: .refused, reason: .tooMany, text: Array("too many requests".utf8),
          retrySeconds: UInt32(clamping: waitMilliseconds / 1000 + 1)))
    }
    loop.perform { [self] in
      let decision = enroller.decide(query)
      let prunes = state.withLock { state in
        state.waiting -= 1
        if decision.event.isFailure { Self.noteFailure(of: query.site, now, &state) }
        guard query.nowSeconds - state.prunedSeconds >= Self.pruneSeconds else { return false }
        state.prunedSeconds = query.nowSeconds
        return true
      }
      report(decision.event, at: query.site, nowSeconds: query.nowSeconds)
      reply(decision.issuance)
      if prunes { prune(nowSeconds: query.nowSeconds) }
    }
  }

  /// A device that is connected has asked for its next certificate more often than it may.
  package func noteAskedTooOften(at site: SocketAddress, nowSeconds: Int64) {
    report(.refused(.slowedDown, "on one connection"), at: site, nowSeconds: nowSeconds)
  }

  /// How often certificates were refused since the start, for each reason that there is.
  package func refusals() -> [(reason: String, number: UInt64)] {
    let refusals = state.withLock { $0.refusals }
    return EnrolmentEvent.Refusal.allCases.map { ($0.rawValue, refusals[$0, default: 0]) }
  }

  private func count(_ refusal: EnrolmentEvent.Refusal) {
    state.withLock { $0.refusals[refusal, default: 0] += 1 }
  }

  /// Nil if the request is admitted, otherwise the milliseconds to wait.
  private func admit(_ site: SocketAddress, _ now: Int64) -> Int64? {
    state.withLock { state in
      if let bucket = state.failures[site] {
        let wait = Self.failureLimit.waitMilliseconds(for: bucket, atMilliseconds: now)
        if wait > 0 { return wait }
      }
      guard state.waiting < Limits.enrolmentQueue,
        Self.allLimit.take(from: &state.all, atMilliseconds: now)
      else { return max(1000, Self.allLimit.waitMilliseconds(for: state.all, atMilliseconds: now)) }
      state.waiting += 1
      return nil
    }
  }

  private static func noteFailure(
    of site: SocketAddress, _ now: Int64, _ state: inout State
  ) {
    if state.failures.count >= Limits.enrolmentAddresses {
      state.failures = state.failures.filter { !$0.value.isFull(atMilliseconds: now) }
      // Failures from very many addresses: rely on the overall limit.
      if state.failures.count >= Limits.enrolmentAddresses { state.failures.removeAll() }
    }
    _ = failureLimit.take(
      from: &state.failures[site, default: RateLimit.Bucket()], atMilliseconds: now)
  }

  private func prune(nowSeconds: Int64) {
    do {
      try enroller.prune(nowSeconds: nowSeconds)
    } catch {
      log(.error, "old enrolments not removed", .text("reason", "\(error)"))
    }
  }

  /// Records a decision for the operator before the device gets it; issued certificates are recorded durably.
  private func report(_ event: EnrolmentEvent, at site: SocketAddress, nowSeconds: Int64) {
    let host = site.hostText
    let address = Log.Field.text("address", host)
    switch event {
    case .codeUsed(let device, let certificate, let codeName):
      log(
        .notice, "device enrolled by code", .text("device", device.text), address,
        .text("code", codeName ?? ""), .text("sha256", certificate.sha256))
      audit.record(
        .codeUsed, actor: host, subject: "device \(device.text)", .text("code", codeName ?? ""),
        .text("serial", certificate.serial), .text("sha256", certificate.sha256))
    case .repeated(let device):
      log(.notice, "certificate sent again", .text("device", device.text), address)
    case .pending(let request, isNew: true):
      log.limited(.notice, .enrolmentWaits, atMilliseconds: EventLoop.monotonicMilliseconds()) {
        [
          .text("key", request.key), .text("name", request.name),
          .text("device", request.device.text), address,
        ]
      }
      audit.recordRefusal(
        .enrolmentPending, actor: host, reason: request.origin.rawValue,
        nowMilliseconds: nowSeconds * 1000
      ) { [.text("key", request.key), .text("device", request.device.text)] }
    case .pending(_, isNew: false): break
    case .collected(let device):
      log(.notice, "device enrolled by the operator", .text("device", device.text), address)
    case .renewed(let device, let certificate, let isNewKey):
      log(
        .notice, "certificate renewed", .text("device", device.text),
        .truth("new_key", isNewKey), .text("sha256", certificate.sha256))
      audit.record(
        .certificateRenewed, actor: host, subject: "device \(device.text)",
        .truth("new_key", isNewKey), .text("serial", certificate.serial),
        .text("sha256", certificate.sha256))
    case .refused(let reason, let detail):
      count(reason)
      log.limited(
        reason == .failed ? .error : .notice, .certificateRefused,
        atMilliseconds: EventLoop.monotonicMilliseconds()
      ) { [.text("reason", reason.rawValue), .text("detail", detail), address] }
      audit.recordRefusal(
        .enrolmentRefused, actor: host, reason: reason.rawValue,
        nowMilliseconds: nowSeconds * 1000
      ) { [.text("detail", detail)] }
    }
  }
}
