import ApusCore
import ApusModel

// What others tell a connection, and its protocol deals with.

extension Connection {
  /// What connections are judged by was replaced, or the clock jumped.
  ///
  /// - Parameter hasLostAuthority: Whether an authority of devices is no longer trusted.
  func trustChanged(hasLostAuthority: Bool) {
    switch driver {
    case .provider(let provider): provider.trustChanged()
    case .gateway(let provider): provider.trustChanged()
    case .courier(let courier): courier.trustChanged(hasLostAuthority: hasLostAuthority)
    case .feedback(let reader): reader.trustChanged()
    case .none: break
    }
  }

  /// A newer connection of the same device took this one's place.
  func displace() {
    if case .courier(let courier) = driver { courier.displace() }
  }

  /// The device behind this connection is gone for good.
  func retire() {
    if case .courier(let courier) = driver { courier.retire() }
  }

  /// Nothing waits for the device behind this connection.
  func nothingStored() {
    if case .courier(let courier) = driver { courier.nothingStored() }
  }

  /// The service stops: the protocol says goodbye in its own way.
  func drain() {
    switch driver {
    case .provider(let provider): provider.drain()
    case .courier(let courier): courier.drain()
    case .gateway:
      // What has arrived is decided; what comes later is told by the packet.
      if stage == .open { socketReadable() }
      if case .gateway(let provider) = driver { provider.drain() }
    // It ends by itself, and soon.
    case .feedback: break
    case .none: drainHandshake()
    }
    worker.markDirty(self)
  }

  /// A provider finishes its handshake, and its protocol then ends the connection without losing a request. A device
  /// tries again by itself.
  private func drainHandshake() {
    guard stage == .handshaking, listener.kind != .courier else {
      if stage == .handshaking || stage == .open { abort() }
      return
    }
    deadlineSeconds = min(deadlineSeconds, worker.nowSeconds + Limits.drainHandshakeSeconds)
    worker.watch(self)
  }

  /// A frame of the binary interface was decided about, or there is a notice about it.
  func decided(_ verdict: Verdict) {
    guard case .gateway(let provider) = driver else { return }
    if let notice = verdict.notice {
      provider.take(notice, verdict.answer.sequence)
    } else {
      provider.finish(verdict.answer.sequence, rejection: verdict.rejection)
    }
  }
}
