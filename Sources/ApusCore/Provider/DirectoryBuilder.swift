import ApusModel
package import ApusWire

/// Collects the records of a directory, checks them for contradictions, and builds the snapshot.
package struct DirectoryBuilder: Sendable {
  package var teams: [Team] = []
  package var keys: [ProviderKey] = []
  package var apps: [App] = []
  package var revokedCertificates: [CertificateFingerprint] = []
  /// See ``Directory/authorities``.
  package var authorities: [UInt64] = []
  package var retiredDevices: [RetiredDevice] = []

  package init() {}

  /// Builds the snapshot. `sha1` hashes a topic's text, because this layer has no hash functions.
  ///
  /// Throws all contradictions together, so that an operator can correct a file in one go.
  package func build(
    generation: UInt64, sha1: (Span<UInt8>) -> TopicHash
  ) throws(DirectoryFaults) -> Directory {
    var faults: [DirectoryFault] = []
    checkTeams(&faults)
    checkApps(&faults)
    checkKeys(&faults)
    checkRelations(&faults)
    checkKeyCounts(&faults)
    checkRetiredDevices(&faults)
    guard faults.isEmpty else { throw DirectoryFaults(faults: faults) }
    return Directory(checked: self, generation: generation, sha1: sha1)
  }

  private func checkRetiredDevices(_ faults: inout [DirectoryFault]) {
    var seen = Set<DeviceID>()
    for device in retiredDevices where !seen.insert(device.id).inserted {
      faults.append(.deviceRetiredTwice(device.id))
    }
  }

  private func checkTeams(_ faults: inout [DirectoryFault]) {
    var seen = Set<ShortID>()
    for team in teams where !seen.insert(team.id).inserted {
      faults.append(.teamTwice(team.id))
    }
  }

  private func checkApps(_ faults: inout [DirectoryFault]) {
    let known = Set(teams.map(\.id))
    var ids = Set<AppID>()
    var bundles = Set<[UInt8]>()
    for app in apps {
      if app.id == .base { faults.append(.appNumberZero(bundleID: app.bundleID)) }
      if !ids.insert(app.id).inserted { faults.append(.appNumberTwice(app.id)) }
      if !bundles.insert(app.bundleID).inserted {
        faults.append(.bundleIDTwice(app.bundleID))
      }
      let longest = Limits.topicBytes - TopicSuffix.longestByteCount
      if !isTopicSyntax(app.bundleID.span) || app.bundleID.count > longest {
        faults.append(.bundleIDSyntax(app.bundleID, longestByteCount: longest))
      }
      if !(1...Limits.retainedNotifications).contains(app.retention) {
        faults.append(.appRetention(bundleID: app.bundleID, count: app.retention))
      }
      if !known.contains(app.team) {
        faults.append(.appOfUnknownTeam(bundleID: app.bundleID, team: app.team))
      }
    }
  }

  private func checkKeys(_ faults: inout [DirectoryFault]) {
    let known = Set(teams.map(\.id))
    let owners = Dictionary(apps.map { ($0.id, $0.team) }, uniquingKeysWith: { first, _ in first })
    var ids = Set<ShortID>()
    var slots: [Int: ShortID] = [:]
    for key in keys {
      if !ids.insert(key.id).inserted { faults.append(.keyTwice(key.id)) }
      if let other = slots.updateValue(key.id, forKey: key.index), other != key.id {
        faults.append(.verifierShared(other, key.id, index: key.index))
      }
      if !known.contains(key.team) {
        faults.append(.keyOfUnknownTeam(key: key.id, team: key.team))
      }
      if key.environments.isEmpty { faults.append(.keyWithoutEnvironment(key.id)) }
      guard let topics = key.topics else { continue }
      if topics.isEmpty { faults.append(.keyWithoutTopics(key.id)) }
      if topics.count > Limits.topicsPerKey {
        faults.append(.tooManyTopics(key: key.id, count: topics.count))
      }
      var assigned = Set<AppID>()
      for topic in topics {
        if !assigned.insert(topic).inserted {
          faults.append(.keyTopicTwice(key: key.id, app: topic))
        }
        guard let owner = owners[topic] else {
          faults.append(.keyOfUnknownApp(key: key.id, app: topic))
          continue
        }
        if owner != key.team {
          faults.append(.keyOfForeignApp(key: key.id, app: topic, owner: owner))
        }
      }
    }
  }

  /// A key has at most one related key: the relation is between two topic-specific keys of a team, and mutual even if
  /// only one of the two declares it.
  private func checkRelations(_ faults: inout [DirectoryFault]) {
    let byID = Dictionary(keys.map { ($0.id, $0) }, uniquingKeysWith: { first, _ in first })
    var namedBy: [ShortID: ShortID] = [:]
    for key in keys {
      guard let related = key.relatedKey else { continue }
      guard let other = byID[related], other.id != key.id else {
        faults.append(.relatedKeyUnknown(key: key.id, related: related))
        continue
      }
      if key.isTeamScoped || other.isTeamScoped {
        faults.append(.relatedKeyTeamScoped(key: key.id, related: related))
      }
      if other.team != key.team {
        faults.append(.relatedKeyOfOtherTeam(key: key.id, related: related))
      }
      if let back = other.relatedKey, back != key.id {
        faults.append(.relatedKeyTaken(key: key.id, related: related, by: back))
      } else if let first = namedBy.updateValue(key.id, forKey: related), first != key.id {
        faults.append(.relatedKeyTaken(key: key.id, related: related, by: first))
      }
    }
  }

  /// "Establishing a token-based connection to APNs": 2 team-scoped and 200 topic-specific keys per environment.
  /// Revoked keys do not count.
  private func checkKeyCounts(_ faults: inout [DirectoryFault]) {
    for team in teams {
      for environment in Environment.allCases {
        let live = keys.filter {
          $0.team == team.id && !$0.isRevoked && $0.environments.contains(environment)
        }
        let teamScoped = live.count(where: \.isTeamScoped)
        if teamScoped > Limits.teamKeysPerEnvironment {
          faults.append(
            .tooManyTeamKeys(team: team.id, environment: environment, count: teamScoped))
        }
        let topicSpecific = live.count - teamScoped
        if topicSpecific > Limits.topicKeysPerEnvironment {
          faults.append(
            .tooManyTopicKeys(team: team.id, environment: environment, count: topicSpecific))
        }
      }
    }
  }
}
