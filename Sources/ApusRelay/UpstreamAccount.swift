package import ApusClient
package import ApusDirectory
package import ApusModel

/// An upstream service, and the credential that it knows this one by. All apps with the same share connections.
package struct UpstreamAccount: Sendable, Hashable {
  package let endpoint: Endpoint
  private let credential: Upstream.Credential
  private let proxy: Upstream.Proxy?
  private let authorityPEM: String?

  /// - Parameter environment: The one that the provider addressed.
  package init(_ upstream: Upstream, _ environment: Environment) {
    endpoint =
      switch upstream.service {
      case .apple: .apple(environment)
      case .appleSandbox: .apple(.development)
      case .other(let host, let port): Endpoint(host: host, port: port)
      }
    credential = upstream.credential
    proxy = upstream.proxy
    authorityPEM = upstream.authorityPEM
  }

  static func all(_ upstream: Upstream) -> [UpstreamAccount] {
    Environment.allCases.map { UpstreamAccount(upstream, $0) }
  }

  /// Providers wait for the answers, and send again themselves what a busy service rejected.
  package func configuration(_ observer: (any ClientObserver)? = nil) -> ClientConfiguration {
    var configuration = ClientConfiguration(
      endpoint: endpoint,
      trustRoots: authorityPEM.map { .pem(Array($0.utf8)) } ?? .system,
      credential: clientCredential)
    configuration.proxy = proxy.map {
      ClientConfiguration.Proxy(
        Endpoint(host: $0.host, port: $0.port), user: $0.user, password: $0.password)
    }
    configuration.retriesRefusals = false
    configuration.sendTimeoutSeconds = Limits.relayAnswerSeconds
    configuration.queueCapacity = Limits.relayQueueCapacity
    configuration.observer = observer
    return configuration
  }

  private var clientCredential: ClientConfiguration.Credential {
    switch credential {
    case .key(let pem, let id, let team):
      .providerToken(keyPEM: Array(pem.utf8), keyID: id, teamID: team)
    case .certificate(let pem, let keyPEM):
      .certificate(certificatePEM: Array(pem.utf8), keyPEM: Array(keyPEM.utf8))
    }
  }
}
