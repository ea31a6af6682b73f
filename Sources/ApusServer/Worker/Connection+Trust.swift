import ApusCore
import ApusLog
import ApusLoop

// What happens when a connection's peer proves who it is.

extension Connection {
  /// The peer has proved who it is. An acceptor gives the connection up then. False, and nothing has changed, if its
  /// team has too many connections.
  func becomeTrusted(as holder: ConnectionHolder) -> Bool {
    guard self.holder == nil else { return true }
    guard worker.gate.trust(peer, at: listener, as: holder) else {
      noteCrowdedTeam(holder)
      return false
    }
    self.holder = holder
    if worker.isAcceptor {
      leave()
    } else {
      worker.untrusted.remove(self)
      isTrusted = true
    }
    return true
  }

  private func noteCrowdedTeam(_ holder: ConnectionHolder) {
    worker.gate.noteCrowdedTeam()
    guard case .provider(let team) = holder else { return }
    logLimited(.warning, .teamHasTooManyConnections) {
      [
        .text("team", team?.text ?? ""), .text("peer", peer.description),
        .text("listener", listener.name),
      ]
    }
  }

  /// A device is known, and its connection goes on at the worker that owns it.
  func leaveAsDevice() {
    guard worker.gate.trust(peer, at: listener, as: .device) else { return close() }
    holder = .device
    leave()
  }

  /// The same of a connection that is counted as trusted already.
  func remainTrusted(as holder: ConnectionHolder) {
    self.holder = holder
    isTrusted = true
  }

  /// The team of a connection whose certificate says all; nil if it names none.
  var certificateTeam: ShortID? {
    (try? BinaryProvider.credential(self))?.team
  }
}
