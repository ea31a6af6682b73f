import ApusLoop
import ApusModel

// Moves a connection from the acceptor, or the worker that accepted it, to the worker that continues with it.

extension Connection {
  /// Sends the connection to the worker that continues with it, and retires this object.
  func handOver() {
    guard linked == nil else { return goOnLinked() }
    guard let holder else { preconditionFailure("an untrusted connection left") }
    let state = retire()?.leave()
    let descriptor = socket.detach()
    table.forget(self, goesOn: true)
    table.host?.handOver(
      HandedOverConnection(
        listener: listener, descriptor: descriptor, peer: peer, holder: holder, tls: tls,
        acceptedMilliseconds: acceptedMilliseconds, unsent: unsent,
        unread: (state?.unread ?? []) + untrusted.waiting, isPeerFinished: isPeerFinished,
        state: state))
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
