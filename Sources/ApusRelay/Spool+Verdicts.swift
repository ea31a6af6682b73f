import ApusCore
import ApusLog
import ApusLoop
import ApusModel
import ApusServer
import ApusStore

// What follows from upstream's final answer to a notification.

extension Spool {
  func conclude(
    _ spooled: SpooledNotification, _ lane: SpoolLane, _ verdict: UpstreamVerdict,
    _ cause: UpstreamCause
  ) {
    switch verdict {
    case .accepted:
      noteGood(lane)
      end(spooled, lane, .accepted)
    case .dead(let since):
      noteGood(lane)
      let since = since ?? loop.wallMilliseconds
      note(spooled, deadSinceMilliseconds: since)
      rows.list(spooled, deadSinceMilliseconds: since)
      end(spooled, lane, .dead(cause))
    case .badToken:
      if isReportable(spooled, lane, cause) { refuse(spooled, .invalidToken, cause) }
    case .refused(let status): refuse(spooled, status, cause)
    case .misconfigured, .later, .again: return
    }
  }

  /// Keeps further notifications for the token back, for a day.
  private func note(_ spooled: SpooledNotification, deadSinceMilliseconds since: Int64) {
    let (token, now) = (RelayedToken(spooled.notification), loop.wallMilliseconds / 1000)
    if let displaced = deadTokens.note(token, sinceMilliseconds: since, notedSeconds: now) {
      rows.remove(displaced)
    }
    rows.put(DeadTokenRecord(token: token, sinceMilliseconds: since, notedSeconds: now))
  }

  private func noteGood(_ lane: SpoolLane) {
    if lane.alarm.noteGood() { sendDoubted(lane) }
  }

  /// The connection that it came on need not know it any more.
  func noteAnswered(_ spooled: SpooledNotification) {
    if let answer = spooled.answer { decisions.add(Verdict(answer: answer, notice: .answered)) }
  }

  /// Tells the sender of a rejection, if it is connected; `settle` follows.
  private func refuse(
    _ spooled: SpooledNotification, _ status: BinaryStatus, _ cause: UpstreamCause
  ) {
    spooled.cause = cause
    let notification = spooled.notification
    log(
      .info, "upstream rejected a notification", .text("id", notification.id.text),
      .text("status", status.text.description))
    let refusal = RelayRefusal(
      answer: spooled.answer ?? Answer(worker: .max, slot: 0, generation: 0), id: notification.id,
      status: status, topic: notification.topic, environment: notification.environment,
      order: spooled.order)
    guard spooled.answer != nil else { return settle(refusal, isReported: false) }
    host.refuse(Int(refusal.answer.worker), refusal)
  }

  /// A refusal is reported, or cannot be: then the feedback list has a bad token.
  func settle(_ refusal: RelayRefusal, isReported: Bool) {
    let topic = RelayTopic(app: refusal.topic.app, environment: refusal.environment)
    guard let lane = knownLane(topic), let spooled = lane.contents[refusal.order] else { return }
    if !isReported, refusal.status == .invalidToken {
      rows.list(spooled, deadSinceMilliseconds: loop.wallMilliseconds)
    }
    end(spooled, lane, .rejected(spooled.cause ?? .otherReason))
  }

  /// Whether a bad token is reported: not if the configuration is in doubt.
  private func isReportable(
    _ spooled: SpooledNotification, _ lane: SpoolLane, _ cause: UpstreamCause
  ) -> Bool {
    let topic = lane.topic
    switch lane.alarm.noteBad() {
    case .report: return true
    case .raise:
      changed(lane)
      host.failing(topic.app, topic.environment, "most device tokens are bad")
      log(
        .error, "upstream takes most device tokens for bad: check environment and topic",
        .number("app", Int64(topic.app.rawValue)), .text("environment", topic.environment.name))
    case .hold: break
    }
    // Its sender may be gone when it is known whose fault it is: then the feedback list will have the token.
    noteAnswered(spooled)
    rows.record(.deferredUpstream, causeCode: cause.code, spooled)
    forget(spooled, lane)
    lane.doubted.append((spooled.order, cause))
    return false
  }

  /// Sends those again that were held while the configuration was in doubt.
  func sendDoubted(_ lane: SpoolLane) {
    for spooled in takeDoubted(lane) {
      remember(spooled, lane)
      lane.machine.putBack(spooled.order)
    }
  }

  /// Those that can be read, with their causes; the others stay, and `sweep` sends them.
  func takeDoubted(_ lane: SpoolLane) -> [SpooledNotification] {
    var doubted: [(order: UInt64, cause: UpstreamCause)] = []
    swap(&doubted, &lane.doubted)
    var found: [SpooledNotification] = []
    for (order, cause) in doubted {
      do throws(StoreError) {
        guard let spooled = try rows.read(lane.topic, order) else { continue }
        // Its frame was noted as answered; the one in the row may be of an earlier process.
        spooled.answer = nil
        spooled.cause = cause
        found.append(spooled)
      } catch {
        lane.doubted.append((order, cause))
      }
    }
    return found
  }
}
