package import ApusCore
import ApusTrust

/// By what a node knows others on links, and shows itself: a certificate of the cluster's own authority.
package struct LinkIdentity: Sendable {
  package let node: NodeName
  /// The node's certificate.
  package let certificatePEM: [UInt8]
  package let keyPEM: [UInt8]
  /// Of those that issue nodes' certificates.
  package let authorityPEM: [UInt8]

  package init(
    node: NodeName, certificatePEM: [UInt8], keyPEM: [UInt8], authorityPEM: [UInt8]
  ) {
    self.node = node
    self.certificatePEM = certificatePEM
    self.keyPEM = keyPEM
    self.authorityPEM = authorityPEM
  }

  private static let domain = "nodes.apus.internal"

  /// The name in a node's certificate, which no client of the service may have.
  package static func serverName(of node: NodeName) -> String { "\(node.text).\(domain)" }

  /// The node whose certificate this is; nil for one that is no node's.
  package static func node(certificateDER der: Span<UInt8>) -> NodeName? {
    guard let name = (try? Certificate(der: der))?.subject.commonName,
      name.hasSuffix(".\(domain)")
    else { return nil }
    return NodeName(String(name.dropLast(domain.count + 1)))
  }
}

extension DataDirectory {
  /// A new identity of a node. The authority is made where the cluster has none yet.
  ///
  /// The key never leaves the process. The certificate is valid for as long as the authority's.
  package func linkIdentity(of node: NodeName, nowSeconds: Int64) throws -> LinkIdentity {
    let authority = try nodesAuthority(nowSeconds: nowSeconds)
    let key = try PrivateKey.generateP256()
    let certificate = try authority.issueNode(
      name: LinkIdentity.serverName(of: node), publicKey: key.publicKey,
      validity: Validity(now: nowSeconds, days: ValidityDays.authority))
    return LinkIdentity(
      node: node, certificatePEM: Array(certificate.pem.utf8),
      keyPEM: Array(key.pkcs8PEM.utf8), authorityPEM: Array(authority.certificate.pem.utf8))
  }

  private func nodesAuthority(nowSeconds: Int64) throws -> CertificateAuthority {
    if Files.exists(authorityKey(.nodes)) { return try authority(.nodes) }
    return try changing {
      // Another node may have made it meanwhile.
      if Files.exists(authorityKey(.nodes)) { return try authority(.nodes) }
      let made = try CertificateAuthority.create(
        commonName: Authority.nodes.title,
        validity: Validity(now: nowSeconds, days: ValidityDays.authority))
      try save(made, as: .nodes)
      return made
    }
  }
}
