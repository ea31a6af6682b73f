import ApusModel

/// What the operator has changed since the service began.
struct SimulatedDirectory {
  /// Counts changes.
  var generation: UInt64 = 1
  /// Whether the last app is registered.
  var hasLateApp = false
  var revokedKeys = 0
  /// For a canary.
  var retainsOne = false
  /// For each app, how many of its certificates are revoked: the first ones.
  var revokedEditions = Array(repeating: 0, count: SimulationCredentials.appCount)
}

// The operator's changes in the middle of the traffic: an app is added, a key or a certificate revoked. Each counts
// from when every worker goes by it.

extension Simulation {
  private enum Change: Int, CaseIterable {
    case addsApp, revokesKey, revokesCertificate
  }

  func planReloads() {
    guard random.chance(2, in: 3) else { return }
    for _ in 0..<1 + random.below(4) {
      let change = random.pick(Change.allCases)
      timeline.after(random.between(1, UInt64(options.seconds)) * Timeline.second) {
        [weak self] in
        guard let self, !isCalm else { return }
        carryOut(change)
      }
    }
  }

  private func carryOut(_ change: Change) {
    var next = directory
    next.generation += 1
    switch change {
    case .addsApp:
      guard !next.hasLateApp else { return }
      next.hasLateApp = true
    case .revokesKey:
      guard next.revokedKeys < SimulationCredentials.keyCount - 1 else { return }
      next.revokedKeys += 1
    case .revokesCertificate:
      let app = random.below(SimulationCredentials.appCount)
      guard next.revokedEditions[app] < SimulationCredentials.editionCount - 1 else { return }
      next.revokedEditions[app] += 1
    }
    do {
      trace("reload", change.rawValue, Int(next.generation))
      // Connections may end from now on.
      troubledUntil = max(troubledUntil, timeline.now)
      directory = next
      server.replace(trust: try credentials.trust(next))
      awaitEffect(next, change)
    } catch {
      oracle.violated("no directory: \(error)")
    }
  }

  private func awaitEffect(_ next: SimulatedDirectory, _ change: Change) {
    timeline.after(seconds: 0.1) { [weak self] in
      guard let self else { return }
      guard server.isUnder(generation: next.generation) else { return awaitEffect(next, change) }
      trace("reload is in effect", change.rawValue, Int(next.generation))
      troubledUntil = max(troubledUntil, timeline.now)
      inEffect = next
      if change == .addsApp { for device in devices { installLater(device) } }
    }
  }

  private func installLater(_ device: SimulatedDevice) {
    timeline.after(random.between(0, 30) * Timeline.second) { [weak self] in
      if let self, !isCalm { device.setState(.enabled, of: SimulationCredentials.lateApp) }
    }
  }

  // MARK: What providers ask

  /// A certificate of the app that is not revoked.
  func firstGoodEdition(_ app: Int) -> Int { directory.revokedEditions[app] }

  /// The place of the key for a connection's tokens: one that is good, and now and then one that is not.
  func key(_ random: inout SeededRandom) -> Int {
    let good = directory.revokedKeys
    return good > 0 && random.chance(1, in: 4) ? good - 1 : good
  }

  /// Whether nothing may be accepted any more under the key.
  func isRevoked(key: Int) -> Bool { key < inEffect.revokedKeys }

  /// Whether nothing may be accepted any more under the certificate at that place.
  func isRevoked(certificate: Int) -> Bool {
    let place = certificate - SimulationCredentials.deviceLimit
    let (app, edition) = place.quotientAndRemainder(
      dividingBy: SimulationCredentials.editionCount)
    return edition < inEffect.revokedEditions[app]
  }

  /// Whether connections under the certificate may be ended for it.
  func mayBeRevoked(certificate: Int) -> Bool {
    let place = certificate - SimulationCredentials.deviceLimit
    let (app, edition) = place.quotientAndRemainder(
      dividingBy: SimulationCredentials.editionCount)
    return edition < directory.revokedEditions[app]
  }
}
