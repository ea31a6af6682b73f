package import ApusTLS

/// The paths of a certificate and its key.
package struct IdentityFiles: Sendable, Hashable {
  package var certificate: String
  package var key: String

  package init(certificate: String, key: String) {
    self.certificate = certificate
    self.key = key
  }

  package init(base: String) {
    certificate = "\(base).crt"
    key = "\(base).key"
  }

  package var exist: Bool { Files.exists(certificate) && Files.exists(key) }

  package func read() throws -> TLSIdentity {
    if !exist, Files.exists(request) {
      throw DirectoryProblem(
        "the service has no certificate yet: have its authority sign \(request), and import the "
          + "certificate with apus cert --import FILE")
    }
    return TLSIdentity(
      certificateChainPEM: try Files.read(certificate), privateKeyPEM: try Files.read(key))
  }
}
