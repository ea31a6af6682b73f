import ApusLoop
import ApusModel

// Moves a connection from the acceptor, or the worker that accepted it, to the worker that continues with it.

extension Connection {
  /// Sends the connection to the worker that continues with it, and retires this object.
  func handOver() {
    guard let holder else { preconditionFailure("an untrusted connection left") }
    let ended = driver
    driver = .none
    stage = .closed
    let descriptor = socket.detach()
    worker.forget(self, goesOn: true)
    var unread = waiting
    var target = worker.acceptsFor?.index ?? worker.index
    let state: HandedOverConnection.State
    switch ended {
    case .provider(let provider):
      state = .provider(provider.leave())
    case .courier(let courier):
      guard let device = courier.leave() else {
        preconditionFailure("a handed-over connection has no device")
      }
      target = worker.ownerIndex(of: device.identity.device)
      unread = device.unread + unread
      state = .device(device)
    case .gateway, .feedback, .none: state = .established
    }
    worker.send(
      .adopt(
        HandedOverConnection(
          listener: listener, descriptor: descriptor, peer: peer, holder: holder, tls: tls,
          acceptedMilliseconds: acceptedMilliseconds, unsent: unsent, unread: unread,
          isPeerFinished: isPeerFinished, state: state)), to: target)
  }

  /// Continues with a connection that was accepted elsewhere.
  func resume(_ handed: HandedOverConnection) {
    remainTrusted(as: handed.holder)
    unsent = handed.unsent
    if !unsent.isEmpty { stalled() }
    switch handed.state {
    case .established: beginProtocol()
    case .provider(let provider): driver = .provider(HTTP2Provider(self, resuming: provider))
    case .device(let device): driver = .courier(CourierConnection(self, resuming: device))
    }
    worker.watch(self)
    unsafe handed.unread.withUnsafeBytes { bytes in
      if stage == .open, unsafe !bytes.isEmpty { unsafe received(bytes) }
    }
    if handed.isPeerFinished { peerFinished() }
  }
}
