import ApusAdmin
import ApusCore
import ApusDirectory
import ApusLog
import ApusLoop
import ApusModel
import ApusWire

// A device's silence, and how its connection ends.

extension CourierConnection {
  func setDeadline() {
    guard let device, stage == .serving, !isStopping else { return }
    let isWaiting = device.inFlightCount > 0 || !sentBroadcasts.isEmpty
    waitingSinceSeconds = isWaiting ? waitingSinceSeconds ?? context.nowSeconds : nil
    var deadline = silenceSeconds
    if let milliseconds = device.sessionDeadlineMilliseconds {
      deadline = min(deadline, milliseconds / 1000 + 1)
    }
    if let certificate { deadline = min(deadline, context.secondAfter(certificate.notAfter)) }
    connection.schedule.deadlineSeconds = deadline
    connection.schedule.quietSeconds = context.nowSeconds + context.configuration.dormantSeconds
    connection.watch()
  }

  /// Until when the device may be silent. "After 60 s with un-acked frames and no other traffic, close": whatever it
  /// was before there were any.
  var silenceSeconds: UInt64 {
    guard let waitingSinceSeconds else { return lastFrameSeconds + idleSeconds }
    return max(lastFrameSeconds, waitingSinceSeconds) + UInt64(Limits.courierAcknowledgeSeconds)
  }

  /// Says goodbye, where the dialect has a word for it, and closes.
  func end(reason: String) {
    guard stage != .over else { return }
    if let device {
      context.log.lazily(.info, "device connection ends") {
        [.text("peer", connection.peer.description)] + context.fields(of: device.key.id)
          + [.text("reason", reason)]
      }
    } else {
      connection.logLimited(.info, .deviceConnectionEnds) {
        [.text("peer", connection.peer.description), .text("reason", reason)]
      }
    }
    if dialect.allowsExtensions {
      CourierGoodbye(
        reason: reason,
        reconnectMilliseconds: stopReason == .serviceStops
          ? context.shutdown.reconnectMilliseconds(connection.slot, of: context) : nil
      ).encode(to: &output)
    }
    leaveShard()
    stage = .over
    connection.close()
  }

  /// Ends the connection if the service stops and nothing is awaited of the device any more.
  func endIfDrained() {
    guard stopReason == .serviceStops, device?.inFlightCount ?? 0 == 0, sentBroadcasts.isEmpty
    else { return }
    endStopped(.serviceStops)
  }

  /// Nothing is awaited of the device any more, or it had its time.
  func endStopped(_ reason: StopReason) {
    if reason == .serviceStops, release() { return }
    end(reason: reason.rawValue)
  }

  /// A newer connection of the device took its place; its shard has moved on already or is about to.
  func displace() { end(reason: "the device reconnected") }

  /// The operator says that the device is gone for good.
  func retire() { end(reason: "the device is retired") }

  func end(because fault: CertificateStanding.Fault) {
    connection.audit(.connectionClosed, device: device?.key.id, reason: fault.kind)
    end(reason: fault.text)
  }

  func leaveShard() {
    if let device {
      shard.subscriptions.disconnect(
        device.key, slot: connection.slot, unacknowledged: sentBroadcasts)
      shard.disconnect(device)
    }
    device = nil
  }
}
