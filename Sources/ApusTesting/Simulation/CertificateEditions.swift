import ApusRandom

/// Chooses which of an app's certificates a provider uses: the valid one, and sometimes a revoked one.
final class CertificateEditions {
  private unowned let world: Simulation
  private var random: SeededRandom
  /// The index of the last chosen certificate.
  private(set) var current = 0

  init(_ world: Simulation, random: SeededRandom) {
    self.world = world
    self.random = random
  }

  /// The index of the certificate for the next connection.
  func next(of app: Int) -> Int {
    let good = world.firstGoodEdition(app)
    let edition = good > 0 && random.chance(1, in: 4) ? good - 1 : good
    current = SimulationCredentials.providerCertificate(app, edition: edition)
    return current
  }
}
