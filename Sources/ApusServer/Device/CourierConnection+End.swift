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
    let isWaiting = device.inFlightCount > 0
    waitingSinceSeconds = isWaiting ? waitingSinceSeconds ?? worker.nowSeconds : nil
    var deadline = silenceSeconds
    if let milliseconds = device.sessionDeadlineMilliseconds {
      deadline = min(deadline, milliseconds / 1000 + 1)
    }
    if let certificate { deadline = min(deadline, worker.secondAfter(certificate.notAfter)) }
    connection.deadlineSeconds = deadline
    connection.quietSeconds = worker.nowSeconds + worker.dormantSeconds
    worker.watch(connection)
  }

  /// Until when the device may be silent. "After 60 s with un-acked frames and no other traffic, close": whatever it
  /// was before there were any.
  private var silenceSeconds: UInt64 {
    guard let waitingSinceSeconds else { return lastFrameSeconds + idleSeconds }
    return max(lastFrameSeconds, waitingSinceSeconds) + UInt64(Limits.courierAcknowledgeSeconds)
  }

  func deadlineReached() {
    switch stage {
    case .awaitingConnect:
      if !isStopping { worker.ended.count(.untrustedTime) }
      end(reason: stopReason?.rawValue ?? "no connect message in time")
    case .enrolling: enrolmentDeadlineReached()
    case .awaitingFilter: end(reason: stopReason?.rawValue ?? "no filter in time")
    case .serving:
      if let stopReason { return end(reason: stopReason.rawValue) }
      if let certificate, worker.certificateSeconds > certificate.notAfter {
        return end(because: .expired)
      }
      if let device { shard.deadlineReached(device) }
      setDeadline()
      if silenceSeconds <= worker.nowSeconds {
        end(reason: "the device was silent for too long")
      }
    case .handingOver: return
    case .over: connection.close()
    }
  }

  /// Says goodbye, where the dialect has a word for it, and closes.
  func end(reason: String) {
    guard stage != .over else { return }
    if let device {
      worker.log(
        .info, "device connection ends", .text("peer", connection.peer.description),
        .text("device", device.key.id.text), .text("reason", reason))
    } else {
      connection.logLimited(.info, .deviceConnectionEnds) {
        [.text("peer", connection.peer.description), .text("reason", reason)]
      }
    }
    if dialect.allowsExtensions {
      CourierGoodbye(
        reason: reason,
        reconnectMilliseconds: stopReason == .serviceStops
          ? worker.reconnectMilliseconds(connection.slot) : nil
      ).encode(to: &output)
    }
    leaveShard()
    stage = .over
    connection.close()
  }

  /// The service stops: nothing more is sent, and the device has a moment to acknowledge what it was sent. What it has
  /// shown would else be sent again by the next service.
  func drain() {
    guard stage != .over else { return }
    stopReason = .serviceStops
    endIfDrained()
    guard stage != .over else { return }
    connection.deadlineSeconds = worker.nowSeconds + Limits.drainAcknowledgeSeconds
    worker.watch(connection)
  }

  /// Ends the connection if the service stops and nothing is awaited of the device any more.
  func endIfDrained() {
    guard stopReason == .serviceStops, device?.inFlightCount ?? 0 == 0 else { return }
    end(reason: StopReason.serviceStops.rawValue)
  }

  /// A newer connection of the device took its place; its shard has moved on already or is about to.
  func displace() { end(reason: "the device reconnected") }

  /// The operator says that the device is gone for good.
  func retire() { end(reason: "the device is retired") }

  /// What connections are judged by was replaced, or the clock jumped: a certificate that was good at the handshake may
  /// be so no longer.
  func trustChanged(hasLostAuthority: Bool) {
    guard stage != .over, let certificate else { return }
    if let fault = certificate.fault(
      worker.trust, hasLostAuthority: hasLostAuthority, nowSeconds: worker.certificateSeconds)
    {
      return end(because: fault)
    }
    setDeadline()
  }

  private func end(because fault: CertificateStanding.Fault) {
    connection.note(.connectionClosed, device: device?.key.id, reason: fault.kind)
    end(reason: fault.text)
  }

  func connectionClosed() {
    leaveShard()
    stage = .over
  }

  func leaveShard() {
    if let device { shard.disconnect(device) }
    device = nil
  }
}
