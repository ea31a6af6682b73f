import ApusClient
import ApusCore
import ApusLog
import ApusLoop
import Synchronization

/// Tells the operator what happens on the connections to an upstream.
final class UpstreamObserver: ClientObserver {
  private let account: UpstreamAccount
  private let log: Log
  private let connections = Atomic(0)

  /// How many connections there are now.
  var connectionCount: Int { connections.load(ordering: .relaxed) }

  init(_ account: UpstreamAccount, _ log: Log) {
    self.account = account
    self.log = log
  }

  func client(_ event: ClientEvent) {
    let upstream = Log.Field.text("upstream", "\(account.endpoint)")
    switch event.kind {
    case .connectionMade(let address):
      connections.add(1, ordering: .relaxed)
      log(.info, "connected upstream", upstream, .text("address", address))
    case .connectionEnded(let reason):
      connections.subtract(1, ordering: .relaxed)
      log(.info, "connection upstream ended", upstream, .text("reason", reason))
    case .connectionFailed(let reason):
      log.limited(.warning, .upstreamUnreachable, atMilliseconds: EventLoop.monotonicMilliseconds())
      {
        [upstream, .text("reason", reason)]
      }
    case .clockDiffers(let seconds):
      log(.warning, "upstream has another time", upstream, .number("seconds-ahead", seconds))
    case .credentialChanged, .credentialRefused: return
    }
  }

  /// Upstream rejected what this service showed it, not what a provider asked for.
  static func report(_ rejection: UpstreamRejection, _ account: UpstreamAccount, _ log: Log) {
    log.limited(
      .error, .upstreamRejectsCredential, atMilliseconds: EventLoop.monotonicMilliseconds()
    ) {
      [
        .text("upstream", "\(account.endpoint)"), .number("status", Int64(rejection.status)),
        .text("reason", rejection.reason),
      ]
    }
  }
}
