package import ApusCore
package import ApusModel
package import ApusTrust

/// The data that authenticates and authorizes connections and requests: immutable, replaced as a whole.
package struct Trust: Sendable {
  package var directory: Directory
  /// Indexed by `ProviderKey.index`.
  package var verifiers: [ProviderKeyVerifier]
  package var sealingKeys: TokenSealingKeys
  /// The authorities trusted for provider certificates; the directory has their marks.
  package var serviceAuthorities: Authorities
  /// The authorities trusted for device certificates.
  package var deviceAuthorities: Authorities
  /// Of the apps that have one.
  package var upstreams: [AppID: Upstream]

  package init(
    directory: Directory, verifiers: [ProviderKeyVerifier], sealingKeys: TokenSealingKeys,
    serviceAuthorities: Authorities, deviceAuthorities: Authorities,
    upstreams: [AppID: Upstream] = [:]
  ) {
    self.directory = directory
    self.verifiers = verifiers
    self.sealingKeys = sealingKeys
    self.serviceAuthorities = serviceAuthorities
    self.deviceAuthorities = deviceAuthorities
    self.upstreams = upstreams
  }

  /// The authorities that a listener of that kind trusts.
  package func authorities(of kind: ListenerKind) -> Authorities {
    kind == .courier ? deviceAuthorities : serviceAuthorities
  }
}
