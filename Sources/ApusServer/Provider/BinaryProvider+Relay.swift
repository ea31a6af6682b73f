import ApusCore
import ApusDirectory
import ApusModel
import ApusTrust
import ApusWire

// Frames whose device token another service issued: kept for the app's upstream. Such a frame is accepted as soon as it
// is in the store.

extension BinaryProvider {
  /// The relay, if the sender's app has an upstream.
  var upstream: (any UpstreamRelay)? {
    guard !context.trust.upstreams.isEmpty, let relay = context.configuration.relay,
      let topic = try? sender.requiredTopic(), context.trust.upstreams[topic.key.app] != nil
    else { return nil }
    return relay
  }

  /// Keeps a frame's notification; the decision comes when it is in the store.
  func keep(
    _ frame: BinaryFrame, payload: Range<Int>, of payloads: inout PayloadSeries,
    bytes: Span<UInt8>, token: DeviceToken, for relay: any UpstreamRelay
  ) throws(Refusal) -> Outcome {
    let notification = try Admission.relayed(
      frame, payload: payload, of: &payloads, bytes: bytes, token: token, sender: sender,
      id: context.ids.next())
    let kept = KeptNotification(
      notification: notification, acceptedMilliseconds: context.wallMilliseconds,
      interface: .binary, answer: nextAnswer)
    return relay.keep(kept) ? .undecided : .failed(.processingError)
  }
}
