import ApusCore
import ApusDirectory
import ApusLog
import ApusModel
import ApusStore
import ApusTrust
import ApusWebhooks
import Synchronization

// What webhooks are told. Each function returns at once if no webhook wants the event.

extension WorkerContext {
  private var events: EventSink { shared.events }

  /// Tells everyone who listens of lines of the ledger.
  func noted(_ ledgerEvents: [LedgerEvent]) {
    configuration.ledgerWatcher?.noted(ledgerEvents, milliseconds: wallMilliseconds)
    reportFinished(ledgerEvents)
  }

  /// The store fails, and there is no room for more lines of the ledger.
  func lostLedgerLines(_ count: Int) {
    lostLedgerLineCount += UInt64(count)
    log(.error, "ledger lines lost while the store fails", .number("lines", count))
  }

  private func reportFinished(_ ledgerEvents: [LedgerEvent]) {
    guard events.wants(.notificationFinished) else { return }
    for event in ledgerEvents where event.state.isTerminal {
      let facts = event.facts
      var fields: [Log.Field] = [
        .text("apns_id", facts.id.text), .text("apns_unique_id", facts.uniqueID.text),
        .text("topic", topicText(facts.topic)), .text("environment", facts.environment.name),
        .text("state", "\(event.state.label)"),
      ]
      fields += self.fields(of: facts.device)
      if !event.causeText.isEmpty { fields.append(.text("cause", event.causeText)) }
      events.report(.notificationFinished, milliseconds: wallMilliseconds, fields)
    }
  }

  func reportDead(_ tokens: [(list: FeedbackTopic, row: FeedbackRow)]) {
    guard events.wants(.tokenDied) else { return }
    for (list, row) in tokens {
      var fields: [Log.Field] = [
        .text("token", row.token.hex), .text("topic", topicText(list.topic)),
        .text("environment", list.environment.name),
        .text("since", Log.timestamp(row.milliseconds)),
      ]
      if let device = sealer.open(row.token)?.device { fields += self.fields(of: device) }
      events.report(.tokenDied, milliseconds: wallMilliseconds, fields)
    }
  }

  func reportConnected(_ device: DeviceKey, isFirst: Bool) {
    if isFirst { report(.deviceFirstSeen, device) }
    report(.deviceConnected, device)
  }

  private func report(_ kind: EventKind, _ device: DeviceKey) {
    guard events.wants(kind) else { return }
    events.report(
      kind, milliseconds: wallMilliseconds,
      fields(of: device.id) + [.text("environment", device.environment.name)])
  }

  func reportRetired(_ devices: some Sequence<DeviceID>) {
    guard events.wants(.deviceRetired) else { return }
    for device in devices {
      events.report(.deviceRetired, milliseconds: wallMilliseconds, fields(of: device))
    }
  }

  func reportFailing(_ app: AppID, _ environment: Environment, _ reason: String) {
    guard events.wants(.upstreamFailing) else { return }
    events.report(
      .upstreamFailing, milliseconds: wallMilliseconds,
      [
        .text("topic", topicText(TopicKey(app: app))), .text("environment", environment.name),
        .text("reason", reason),
      ])
  }

  private func topicText(_ topic: TopicKey) -> String {
    trust.directory.topicText(topic).map { String(decoding: $0, as: UTF8.self) }
      ?? "app \(topic.app.rawValue)\(topic.suffix.text)"
  }
}

/// Reports what is found by looking: certificates that expire soon, and trust data that cannot be read.
final class WatchedEvents: Sendable {
  private struct State {
    var certificates: Set<ExpiryWatch.Entry> = []
    var isStale = false
  }

  private let expiries: ExpiryWatch
  private let loader: TrustLoader
  private let state = Mutex(State())

  init(_ expiries: ExpiryWatch, _ loader: TrustLoader) {
    self.expiries = expiries
    self.loader = loader
  }

  /// Each certificate is reported once in the life of the process, and trust data each time they become stale.
  func report(to events: EventSink, nowMilliseconds: Int64) {
    let expiring = expiries.entries()
    let stale = loader.staleness
    let (found, isNewlyStale) = state.withLock { state in
      let known = state.certificates
      state.certificates = Set(expiring)
      defer { state.isStale = stale != nil }
      return (expiring.filter { !known.contains($0) }, stale != nil && !state.isStale)
    }
    for entry in found {
      events.report(
        .certificateExpiring, milliseconds: nowMilliseconds,
        [
          .text("kind", entry.kind.rawValue), .text("name", entry.name),
          .text("expires", Log.timestamp(entry.notAfter * 1000)),
        ])
    }
    if isNewlyStale, let stale {
      events.report(
        .trustStale, milliseconds: nowMilliseconds,
        [
          .text("since", Log.timestamp(stale.sinceMilliseconds)), .text("reason", stale.reason),
        ])
    }
  }
}
