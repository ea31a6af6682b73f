import ApusLoop
import ApusModel
import Glibc

// Moves a connection from the acceptor, or the worker that accepted it, to the worker that continues with it.

extension Connection {
  /// Sends the connection to the worker that continues with it, and retires this object.
  func handOver() {
    guard linked == nil else { return goOnLinked() }
    table.host?.handOver(detach(retire()?.leave(), goesOn: true))
  }

  /// Gives the connection to another service of the process, and retires this object.
  func moveOut(_ state: any HandedOverState) -> HandedOverConnection {
    _ = retire()
    // It may be flushed once more here.
    defer { unsent.removeAll() }
    return detach(state, goesOn: false)
  }

  private func detach(
    _ state: (any HandedOverState)?, goesOn: Bool
  ) -> HandedOverConnection {
    guard let holder else { preconditionFailure("an untrusted connection left") }
    let descriptor = socket.detach()
    table.forget(self, goesOn: goesOn)
    return HandedOverConnection(
      listener: listener, descriptor: descriptor, peer: peer, holder: holder, tls: tls,
      acceptedMilliseconds: acceptedMilliseconds, unsent: unsent,
      unread: (state?.unread ?? []) + untrusted.waiting, isPeerFinished: isPeerFinished,
      state: state)
  }

  /// Continues with a connection that was accepted elsewhere.
  func resume(_ handed: HandedOverConnection) {
    trust(handed.holder)
    unsent = handed.unsent
    if !unsent.isEmpty { outputWaits() }
    if let state = handed.state {
      begin(table.host?.resumeProtocol(state, of: self))
    } else {
      beginProtocol()
    }
    unsafe handed.unread.withUnsafeBytes { bytes in
      if isOpen, unsafe !bytes.isEmpty { unsafe received(bytes) }
    }
    if handed.isPeerFinished { peerFinished() }
  }
}

extension ConnectionTable {
  /// Takes over a connection from another service of the process, which no longer counts it.
  func adopt(moved: HandedOverConnection) {
    var handed = moved
    let ordinal = handed.listener.ordinal
    guard
      let listener = host?.listener(
        handed.listener.kind, handed.listener.environment, ordinal: ordinal),
      makeRoom(for: handed.peer, { context.gate.accept(from: handed.peer, at: listener) })
    else { return abandon(handed) }
    guard context.gate.trust(handed.peer, at: listener, as: handed.holder) else {
      context.gate.close(handed.peer, at: listener, holder: nil)
      return abandon(handed)
    }
    handed.listener = listener
    adopt(handed)
  }

  private func abandon(_ handed: HandedOverConnection) { Glibc.close(handed.descriptor) }
}
