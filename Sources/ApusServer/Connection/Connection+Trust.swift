import ApusCore
import ApusLog
import ApusLoop
import ApusTLS

// What happens when a connection's peer proves who it is.

extension Connection {
  /// The peer has proved its identity. A connection of an acceptor then moves to a worker. False, and nothing has
  /// changed, if its team has too many connections.
  func becomeTrusted(as holder: ConnectionHolder) -> Bool {
    guard self.holder == nil else { return true }
    guard context.gate.trust(peer, at: listener, as: holder) else {
      noteCrowdedTeam(holder)
      return false
    }
    trust(holder)
    table.becameTrusted(self)
    if context.isAcceptor { leave() }
    return true
  }

  private func noteCrowdedTeam(_ holder: ConnectionHolder) {
    context.gate.noteCrowdedTeam()
    guard case .provider(let team) = holder else { return }
    logLimited(.warning, .teamHasTooManyConnections) {
      [
        .text("team", team?.text ?? ""), .text("peer", peer.description),
        .text("listener", listener.name),
      ]
    }
  }

  /// A device is known, and its connection goes on at the worker that owns it.
  func leaveAsDevice() { if becomeTrustedAsDevice() { leave() } else { close() } }

  /// False if the listener has no room for more devices.
  func becomeTrustedAsDevice() -> Bool {
    guard context.gate.trust(peer, at: listener, as: .device) else { return false }
    trust(.device)
    table.becameTrusted(self)
    return true
  }

  /// The team of a connection whose certificate says all; nil if it names none.
  var certificateTeam: ShortID? {
    (try? certificateCredential())?.team
  }

  /// What the peer's certificate authorizes; nil if it names no topic.
  func certificateCredential() throws(Refusal) -> CertificateCredential? {
    guard let der = tls.peerCertificateDER else { throw Refusal(.certificateUnusable) }
    do throws(Refusal) {
      return try CertificateCredential(der: der.span, authorities: listener.authorities)
    } catch {
      guard error.explanation == .certificateTopicMissing else { throw error }
      return nil
    }
  }
}
