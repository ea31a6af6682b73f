import ApusCore
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
    writer.family(
      "apus_relay_repeated_total", .counter,
      "Notifications sent again although upstream may have accepted them.")
    samples { Int(clamping: $0.ended.repeated) }
  }
}
