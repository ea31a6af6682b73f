import ApusRandom
import ApusModel

/// The operator's changes since the service started.
struct SimulatedDirectory {
  /// Counts changes.
  var generation: UInt64 = 1
  /// Whether the last app is registered.
  var hasLateApp = false
  var revokedKeys = 0
  /// For each app with an upstream, how often that was changed; empty for none.
  var upstreamEditions: [Int] = []
  /// For a canary.
  var retainsOne = false
  /// For each app, how many of its certificates are revoked, from the first.
  var revokedEditions = Array(repeating: 0, count: SimulationCredentials.appCount)
}

// The operator's changes during the traffic: an app is added, a key or a certificate revoked. Each takes effect when
// every worker uses it.

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

  func addApp() { carryOut(.addsApp) }

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
    trace("reload", change.rawValue, Int(next.generation))
    // Connections may end from now on.
    troubledUntil = max(troubledUntil, timeline.now)
    replace(next)
    awaitEffect(next, change)
  }

  func replace(_ next: SimulatedDirectory) {
    do {
      directory = next
      let trust = try credentials.trust(next)
      for part in parts { part.server.replace(trust: trust) }
      cluster?.replace(trust: trust)
    } catch {
      oracle.violated(.protocols, "cannot create the directory: \(error)")
    }
  }

  /// The operator changes what an app's upstream is shown.
  func changeUpstream(of app: Int) {
    var next = directory
    next.upstreamEditions[app] += 1
    trace("upstream changed", app, next.upstreamEditions[app])
    replace(next)
  }

  private func awaitEffect(_ next: SimulatedDirectory, _ change: Change) {
    timeline.after(seconds: 0.1) { [weak self] in
      guard let self else { return }
      guard parts.allSatisfy({ $0.server.isUnder(generation: next.generation) }),
        cluster?.isUnder(generation: next.generation) ?? true
      else { return awaitEffect(next, change) }
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

  // MARK: Queries of providers

  /// The index of the app's first certificate that is not revoked.
  func firstGoodEdition(_ app: Int) -> Int { directory.revokedEditions[app] }

  /// The index of the key for a connection's tokens: usually a valid one.
  func key(_ random: inout SeededRandom) -> Int {
    let good = directory.revokedKeys
    return good > 0 && random.chance(1, in: 4) ? good - 1 : good
  }

  /// Whether the service may accept nothing with the key any more.
  func isRevoked(key: Int) -> Bool { key < inEffect.revokedKeys }

  /// Whether the service may accept nothing with the certificate at that index any more.
  func isRevoked(certificate: Int) -> Bool {
    let place = certificate - SimulationCredentials.deviceLimit
    let (app, edition) = place.quotientAndRemainder(
      dividingBy: SimulationCredentials.editionCount)
    return edition < inEffect.revokedEditions[app]
  }

  /// Whether the service may end connections with the certificate.
  func mayBeRevoked(certificate: Int) -> Bool {
    let place = certificate - SimulationCredentials.deviceLimit
    let (app, edition) = place.quotientAndRemainder(
      dividingBy: SimulationCredentials.editionCount)
    return edition < directory.revokedEditions[app]
  }
}
