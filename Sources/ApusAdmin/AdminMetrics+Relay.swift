import ApusCore
import ApusLoop
import ApusModel

// What waits for upstreams.

extension AdminMetrics {
  mutating func writeRelay() {
    let rows = view.relayFigures()
    guard !rows.isEmpty else { return }
    func samples(_ value: (RelayFigures) -> Int) {
      for (topic, figures) in rows {
        writer.sample(
          ["topic": topic, "environment": figures.environment.name], value(figures))
      }
    }
    writer.family(
      "apus_relay_notifications", .gauge, "Notifications of an app that wait for its upstream.")
    samples(\.count)
    writer.family("apus_relay_bytes", .gauge, "Bytes of these notifications in the store.")
    samples(\.byteCount)
    writer.family(
      "apus_relay_doubted", .gauge,
      "Those of them that are held because upstream takes most device tokens for bad.")
    samples(\.doubtedCount)
    writer.family(
      "apus_relay_held", .gauge,
      "Whether an app's notifications are held: upstream is busy or away, rejects what it is shown, or a pause."
    )
    samples { $0.hold == nil ? 0 : 1 }
    writer.family(
      "apus_relay_ended_total", .counter,
      "Notifications that ended since the start: accepted or rejected by upstream, for a dead token, or expired."
    )
    for (topic, figures) in rows {
      for (how, count) in [
        ("accepted", figures.ended.accepted), ("rejected", figures.ended.rejected),
        ("dead", figures.ended.dead), ("expired", figures.ended.expired),
      ] {
        writer.sample(
          ["topic": topic, "environment": figures.environment.name, "how": how], count)
      }
    }
    writeAnswers(rows)
    writer.family(
      "apus_relay_oldest_seconds", .gauge,
      "For how long the oldest notification waits of those that are sent next.")
    let now = EventLoop.wallClockMilliseconds()
    for (topic, figures) in rows {
      guard let oldest = figures.oldestMilliseconds else { continue }
      writer.sample(
        ["topic": topic, "environment": figures.environment.name], max(0, now - oldest) / 1000)
    }
    writer.family(
      "apus_relay_repeated_total", .counter,
      "Notifications sent again although upstream may have accepted them.")
    samples { Int(clamping: $0.ended.repeated) }
  }

  private mutating func writeAnswers(_ rows: [(topic: String, figures: RelayFigures)]) {
    writer.family(
      "apus_relay_answers_total", .counter,
      "Answers from upstream by reason; each attempt has one, also of requests that pass through.")
    for (topic, figures) in rows {
      var counts = ["accepted": figures.answers.accepted]
      for (cause, count) in figures.answers.others { counts[cause.name, default: 0] += count }
      for (reason, count) in counts.sorted(by: { $0.key < $1.key }) {
        writer.sample(
          ["topic": topic, "environment": figures.environment.name, "reason": reason], count)
      }
    }
    writer.family(
      "apus_relay_upstream_seconds", .histogram, "Time from a request upstream to its answer.")
    writer.histogram(
      rows.reduce(MillisecondHistogram()) { $0 + $1.figures.answers.latency })
    writer.family("apus_relay_connections", .gauge, "Open connections to an upstream.")
    // Two apps with credentials of their own may have the same upstream.
    let counts = Dictionary(
      view.service.relayConnections().map { ($0.upstream, $0.count) }, uniquingKeysWith: +)
    for (upstream, count) in counts.sorted(by: { $0.key < $1.key }) {
      writer.sample(["upstream": upstream], count)
    }
  }
}
