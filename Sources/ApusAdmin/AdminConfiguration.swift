package import ApusDirectory
package import ApusLoop
package import ApusWeb

/// The listeners of the administration.
package struct AdminConfiguration: Sendable {
  /// Whether to open the UNIX socket in the data directory, for users with access to the directory.
  package var hasSocket: Bool
  /// Addresses with TLS, for callers with a token.
  package var addresses: [SocketAddress]
  /// Addresses of the console, which requires a token: plain HTTP on loopback, TLS on any other address.
  package var console: [SocketAddress]
  /// The files of the console; nil serves none.
  package var page: WebPage?
  /// What the addresses with TLS present in place of the service's own certificate; nil for that.
  package var serverCertificate: IdentityFiles?
  /// The version that the service reports.
  package var version: String

  package init(
    hasSocket: Bool, addresses: [SocketAddress] = [], console: [SocketAddress] = [],
    page: WebPage? = nil, serverCertificate: IdentityFiles? = nil, version: String
  ) {
    self.hasSocket = hasSocket
    self.addresses = addresses
    self.console = console
    self.page = page
    self.serverCertificate = serverCertificate
    self.version = version
  }
}

extension DataDirectory {
  /// The UNIX socket of a running service, for users with access to the data directory.
  package var adminSocket: String { "\(path)/admin.sock" }
  /// The file of the administration tokens.
  package var adminTokenFile: String { "\(path)/admin.tokens" }
}
