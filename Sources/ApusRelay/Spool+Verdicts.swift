import ApusCore
import ApusLog
import ApusLoop
import ApusModel
import ApusServer
import ApusStore

// What follows from upstream's final answer to a notification.

extension Spool {
  func conclude(
    _ order: UInt64, _ spooled: SpooledNotification, _ verdict: UpstreamVerdict,
    _ cause: UpstreamCause
  ) {
    let topic = spooled.topic
    switch verdict {
    case .accepted:
      noteGood(topic)
      end(order, spooled, .accepted)
    case .dead(let since):
      noteGood(topic)
      let since = since ?? loop.wallMilliseconds
      note(spooled, deadSinceMilliseconds: since)
      rows.list(spooled, deadSinceMilliseconds: since)
      end(order, spooled, .dead(cause))
    case .badToken:
      if isReportable(order, spooled, cause) { refuse(order, spooled, .invalidToken, cause) }
    case .refused(let status): refuse(order, spooled, status, cause)
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

  private func noteGood(_ topic: RelayTopic) {
    if lanes[topic]?.alarm.noteGood() == true { sendDoubted(topic) }
  }

  /// The connection that it came on need not know it any more.
  func noteAnswered(_ spooled: SpooledNotification) {
    if let answer = spooled.answer { decisions.add(Verdict(answer: answer, notice: .answered)) }
  }

  /// Tells the sender of a rejection, if it is connected; `settle` follows.
  private func refuse(
    _ order: UInt64, _ spooled: SpooledNotification, _ status: BinaryStatus,
    _ cause: UpstreamCause
  ) {
    lanes[spooled.topic]?.contents[order]?.cause = cause
    let notification = spooled.notification
    log(
      .info, "upstream rejected a notification", .text("id", notification.id.text),
      .text("status", status.text.description))
    let refusal = RelayRefusal(
      answer: spooled.answer ?? Answer(worker: .max, slot: 0, generation: 0), id: notification.id,
      status: status, topic: notification.topic, environment: notification.environment,
      order: order)
    guard spooled.answer != nil else { return settle(refusal, isReported: false) }
    host.refuse(Int(refusal.answer.worker), refusal)
  }

  /// A refusal is reported, or cannot be: then the feedback list has a bad token.
  func settle(_ refusal: RelayRefusal, isReported: Bool) {
    let topic = RelayTopic(app: refusal.topic.app, environment: refusal.environment)
    guard let spooled = lanes[topic]?.contents[refusal.order] else { return }
    if !isReported, refusal.status == .invalidToken {
      rows.list(spooled, deadSinceMilliseconds: loop.wallMilliseconds)
    }
    end(refusal.order, spooled, .rejected(spooled.cause ?? .otherReason))
  }

  /// Whether a bad token is reported: not if the configuration is in doubt.
  private func isReportable(
    _ order: UInt64, _ spooled: SpooledNotification, _ cause: UpstreamCause
  ) -> Bool {
    let topic = spooled.topic
    guard let ruling = lanes[topic]?.alarm.noteBad() else { return false }
    switch ruling {
    case .report: return true
    case .raise:
      change(topic) { _ in }
      host.failing(topic.app, topic.environment, "most device tokens are bad")
      log(
        .error, "upstream takes most device tokens for bad: check environment and topic",
        .number("app", Int64(topic.app.rawValue)), .text("environment", topic.environment.name))
    case .hold: break
    }
    // Its sender may be gone when it is known whose fault it is: then the feedback list will have the token.
    noteAnswered(spooled)
    rows.record(.deferredUpstream, causeCode: cause.code, order, spooled)
    lanes[topic]?.contents[order] = nil
    lanes[topic]?.doubted.append((order, cause))
    return false
  }

  /// Sends those again that were held while the configuration was in doubt.
  func sendDoubted(_ topic: RelayTopic) {
    for (order, spooled) in takeDoubted(topic) {
      lanes[topic]?.contents[order] = spooled
      lanes[topic]?.machine.putBack(order)
    }
  }

  /// Those that can be read, with their causes; the others stay, and `sweep` sends them.
  func takeDoubted(_ topic: RelayTopic) -> [(order: UInt64, spooled: SpooledNotification)] {
    guard let doubted = lanes[topic]?.doubted else { return [] }
    lanes[topic]?.doubted = []
    var found: [(order: UInt64, spooled: SpooledNotification)] = []
    for (order, cause) in doubted {
      do throws(StoreError) {
        guard var spooled = try rows.read(topic, order) else { continue }
        // Its frame was noted as answered; the one in the row may be of an earlier process.
        spooled.answer = nil
        spooled.cause = cause
        found.append((order, spooled))
      } catch {
        lanes[topic]?.doubted.append((order, cause))
      }
    }
    return found
  }
}
