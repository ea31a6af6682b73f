import ApusLoop
import ApusModel
package import ApusTLS
import ApusTrust
import Synchronization

/// A gateway on real sockets that follows a script, and records what it accepted.
package final class ScriptedGateway: @unchecked Sendable {
  package struct Options: Sendable {
    /// Sends status 0 for each accepted notification.
    package var confirms = false
    /// Milliseconds for which it ignores a new connection.
    package var handshakePauseMilliseconds: UInt64 = 0
    /// Whether it leaves the clients' probes unanswered: notifications without token and payload.
    package var ignoresProbes = false

    package init() {}
  }

  struct Account {
    /// The accepted payloads in order, including repetitions.
    var taken: [String] = []
    /// The rejected payloads.
    var refused: [String] = []
    var connectionCount = 0
  }

  /// The authority that signed the gateway's certificate, and a client identity from it.
  package let authorityPEM: [UInt8]
  package let clientIdentity: TLSIdentity
  package private(set) var port: UInt16 = 0
  package let options: Options

  /// By connection; later connections accept everything.
  private let script: [[GatewayAction]]
  private let account = Mutex(Account())
  private let loop = EventLoop(name: "scripted")
  private let context: TLSContext
  private var listener: Listener?
  private var connections: [ScriptedGatewayConnection] = []

  package init(_ script: [[GatewayAction]], _ options: Options = Options()) throws {
    self.script = script
    self.options = options
    let now = EventLoop.wallClockMilliseconds() / 1000
    let validity = Validity(now: now, days: 1)
    let authority = try CertificateAuthority.create(commonName: "Scripted", validity: validity)
    authorityPEM = Array(authority.certificate.pem.utf8)
    func identity(_ issue: (PublicKey) throws -> Certificate) throws -> TLSIdentity {
      let key = try PrivateKey.generateP256()
      return TLSIdentity(try issue(key.publicKey), key)
    }
    clientIdentity = try identity {
      try authority.issueProvider(
        ProviderCertificateRequest(
          bundleID: "com.example.app", teamID: "TEAM123456", environments: .both, topics: nil,
          publicKey: $0, validity: validity))
    }
    context = try TLSContext(
      server: TLSServerConfiguration(
        identity: identity {
          try authority.issueServer(names: ["127.0.0.1"], publicKey: $0, validity: validity)
        },
        clientCertificates: .required(authoritiesPEM: authorityPEM), sessionTickets: false))
    let listener = try Listener(loop: loop, address: .loopbackIPv4(port: 0)) {
      [weak self] descriptor, _ in self?.accept(descriptor)
    }
    self.listener = listener
    port = listener.localAddress?.port ?? 0
    loop.start()
  }

  deinit { loop.stop() }

  package var taken: [String] { account.withLock { $0.taken } }
  package var refused: [String] { account.withLock { $0.refused } }
  package var connectionCount: Int { account.withLock { $0.connectionCount } }

  func updateAccount(_ change: (inout Account) -> Void) { account.withLock { change(&$0) } }

  private func accept(_ descriptor: Int32) {
    let index = account.withLock { account in
      defer { account.connectionCount += 1 }
      return account.connectionCount
    }
    guard let socket = try? Socket(adopting: descriptor, loop: loop),
      let tls = try? TLSConnection(context: context)
    else { return }
    connections.append(
      ScriptedGatewayConnection(
        socket, tls, index < script.count ? script[index] : [], gateway: self))
  }
}
