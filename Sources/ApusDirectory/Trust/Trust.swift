package import ApusCore
package import ApusModel
package import ApusTrust

/// What connections and requests are judged by: immutable, and replaced as a whole.
package struct Trust: Sendable {
  package var directory: Directory
  /// By `ProviderKey.index`.
  package var verifiers: [ProviderKeyVerifier]
  package var sealingKeys: TokenSealingKeys
  /// Whose certificates providers may show; the directory has their marks.
  package var serviceAuthorities: Authorities
  /// Whose certificates devices may show.
  package var deviceAuthorities: Authorities

  package init(
    directory: Directory, verifiers: [ProviderKeyVerifier], sealingKeys: TokenSealingKeys,
    serviceAuthorities: Authorities, deviceAuthorities: Authorities
  ) {
    self.directory = directory
    self.verifiers = verifiers
    self.sealingKeys = sealingKeys
    self.serviceAuthorities = serviceAuthorities
    self.deviceAuthorities = deviceAuthorities
  }

  /// Whose certificates a listener of that kind accepts.
  package func authorities(of kind: ListenerKind) -> Authorities {
    kind == .courier ? deviceAuthorities : serviceAuthorities
  }
}
