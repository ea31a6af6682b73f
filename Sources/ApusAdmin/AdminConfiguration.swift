import ApusDirectory
package import ApusLoop
package import ApusWeb

/// Where a service lets itself be administered.
package struct AdminConfiguration: Sendable {
  /// Whether there is a UNIX socket in the data directory, for those who may read it.
  package var hasSocket: Bool
  /// Where there is TLS, for those with a token.
  package var addresses: [SocketAddress]
  /// Where the console is served, with a token: plain HTTP on loopback, TLS on any other address.
  package var console: [SocketAddress]
  /// The console itself; nil shows none.
  package var page: WebPage?
  /// What the service calls itself.
  package var version: String

  package init(
    hasSocket: Bool, addresses: [SocketAddress] = [], console: [SocketAddress] = [],
    page: WebPage? = nil, version: String
  ) {
    self.hasSocket = hasSocket
    self.addresses = addresses
    self.console = console
    self.page = page
    self.version = version
  }
}

extension DataDirectory {
  /// Where a running service is administered by whoever may use the data directory.
  package var adminSocket: String { "\(path)/admin.sock" }
  /// The tokens of those who administer it from elsewhere.
  package var adminTokenFile: String { "\(path)/admin.tokens" }
}
