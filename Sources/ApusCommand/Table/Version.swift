extension Program {
  /// The version of Apus, as semver.org has it.
  package static let version = "0.2.0"
}
