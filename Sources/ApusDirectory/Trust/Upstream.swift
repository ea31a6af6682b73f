/// Where an app's notifications go whose device tokens this service did not issue: to Apple, or to another service that
/// speaks the HTTP/2 provider API.
package struct Upstream: Sendable, Hashable {
  package enum Service: Sendable, Hashable {
    /// Apple's, of the environment that the provider addressed.
    case apple
    /// Apple's for development, whatever the provider addressed.
    case appleSandbox
    case other(host: String, port: UInt16)
  }

  /// What this service shows upstream. Providers never see it.
  package enum Credential: Sendable, Hashable {
    /// A key in PEM form as in Apple's `.p8` files, its id of 10 characters, and the team's id.
    case key(pem: String, id: String, team: String)
    /// A certificate, followed by those up to its authority, and its unencrypted key.
    case certificate(pem: String, keyPEM: String)
  }

  /// An HTTP proxy in front of the upstream service.
  package struct Proxy: Sendable, Hashable {
    package var host: String
    package var port: UInt16
    package var user: String?
    package var password: String?

    package init(host: String, port: UInt16, user: String? = nil, password: String? = nil) {
      self.host = host
      self.port = port
      self.user = user
      self.password = password
    }
  }

  package var service: Service
  package var credential: Credential
  /// The app's bundle id upstream; nil if it is the same there.
  package var bundleID: String?
  package var proxy: Proxy?
  /// The authorities that its certificate may come from; nil for the operating system's.
  package var authorityPEM: String?
  /// Whether a request of the HTTP/2 API is kept and answered with 200 while upstream cannot take it.
  package var spools: Bool
  /// How many notifications may go there in a second; nil for any number.
  package var perSecond: Int?

  package init(
    service: Service, credential: Credential, bundleID: String? = nil, proxy: Proxy? = nil,
    authorityPEM: String? = nil, spools: Bool = false, perSecond: Int? = nil
  ) {
    self.service = service
    self.credential = credential
    self.bundleID = bundleID
    self.proxy = proxy
    self.authorityPEM = authorityPEM
    self.spools = spools
    self.perSecond = perSecond
  }
}
