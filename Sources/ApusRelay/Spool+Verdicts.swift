import ApusCore
import ApusLog
import ApusLoop
import ApusModel
import ApusServer
import ApusStore

// What follows from upstream's final answer to a notification.

extension Spool {
  func conclude(
    _ order: UInt64, _ spooled: SpooledNotification, _ verdict: UpstreamVerdict
  ) {
    let topic = spooled.topic
    switch verdict {
    case .accepted:
      noteGood(topic)
    case .dead(let since):
      noteGood(topic)
      let since = since ?? loop.wallMilliseconds
      note(spooled, deadSinceMilliseconds: since)
      list(spooled, deadSinceMilliseconds: since)
    case .badToken:
      guard report(order, spooled) else { return }
    case .refused(let status):
      log(
        .info, "upstream rejected a notification",
        .text("id", spooled.notification.id.text), .text("status", status.text.description))
    case .misconfigured, .later, .again: return
    }
    end(order, spooled)
  }

  /// Keeps further notifications for the token back, for a day.
  private func note(_ spooled: SpooledNotification, deadSinceMilliseconds since: Int64) {
    let (token, now) = (RelayedToken(spooled.notification), loop.wallMilliseconds / 1000)
    if let displaced = deadTokens.note(token, sinceMilliseconds: since, notedSeconds: now) {
      rows.remove(displaced)
    }
    rows.put(token, deadSinceMilliseconds: since, notedSeconds: now)
  }

  private func list(_ spooled: SpooledNotification, deadSinceMilliseconds since: Int64) {
    do throws(StoreError) {
      try rows.list(spooled, deadSinceMilliseconds: since)
    } catch {
      log.limited(.error, .feedbackUnreadable, atMilliseconds: loop.nowMilliseconds) {
        [.text("reason", "\(error)")]
      }
    }
  }

  private func noteGood(_ topic: RelayTopic) {
    if lanes[topic]?.alarm.noteGood() == true { sendDoubted(topic) }
  }

  /// Lists a bad token; false if the configuration is in doubt, so that nobody is told.
  private func report(_ order: UInt64, _ spooled: SpooledNotification) -> Bool {
    let topic = spooled.topic
    guard let ruling = lanes[topic]?.alarm.noteBad() else { return false }
    switch ruling {
    case .report:
      list(spooled, deadSinceMilliseconds: loop.wallMilliseconds)
      return true
    case .raise:
      log(
        .error, "upstream takes most device tokens for bad: check environment and topic",
        .number("app", Int64(topic.app.rawValue)), .text("environment", topic.environment.name))
    case .hold: break
    }
    lanes[topic]?.contents[order] = nil
    lanes[topic]?.doubted.append(order)
    return false
  }

  /// Sends those again that were held while the configuration was in doubt.
  func sendDoubted(_ topic: RelayTopic) {
    guard let doubted = lanes[topic]?.doubted else { return }
    lanes[topic]?.doubted = []
    for order in doubted {
      guard let spooled = try? rows.read(topic, order) else { continue }
      lanes[topic]?.contents[order] = spooled
      lanes[topic]?.machine.putBack(order)
    }
  }
}
