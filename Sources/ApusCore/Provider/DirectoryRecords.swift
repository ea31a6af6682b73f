package import ApusModel

/// A team: the owner of apps and of the keys that may push to them.
package struct Team: Sendable, Hashable {
  package var id: ShortID
  /// The operator's name for it; for logs and the console.
  package var name: String
  /// How many notifications of all of its apps together may go upstream in a second; nil for any number.
  package var upstreamPerSecond: Int?

  package init(id: ShortID, name: String = "", upstreamPerSecond: Int? = nil) {
    self.id = id
    self.name = name
    self.upstreamPerSecond = upstreamPerSecond
  }
}

/// An app: a bundle id, and every topic made of that id and a ``TopicSuffix``.
package struct App: Sendable, Hashable {
  package var id: AppID
  /// ASCII letters, digits, `.`, `-`, `_`.
  package var bundleID: [UInt8]
  package var team: ShortID
  /// How many of its newest notifications are stored for an offline device. From 1 to `Limits.retainedNotifications`.
  package var retention: Int
  /// Whether it may have channels. "Setting up broadcast push notifications": the feature is off until it is enabled
  /// for the app.
  package var broadcasts: Bool

  package init(
    id: AppID, bundleID: [UInt8], team: ShortID, retention: Int = 1, broadcasts: Bool = false
  ) {
    self.id = id
    self.bundleID = bundleID
    self.team = team
    self.retention = retention
    self.broadcasts = broadcasts
  }
}

/// The public half of a key that signs provider tokens, and what it permits.
///
/// "Establishing a token-based connection to APNs": a team-scoped key covers all topics of its team; a topic-specific
/// key covers those assigned to it, and may have one related key to rotate to on the same connection.
package struct ProviderKey: Sendable, Hashable {
  package var id: ShortID
  package var team: ShortID
  package var environments: EnvironmentSet
  /// The apps of a topic-specific key, in ascending order once built; nil for a team-scoped one.
  package var topics: [AppID]?
  /// Only for a topic-specific key.
  package var relatedKey: ShortID?
  /// Revocation is permanent: a revoked key stays listed, so that its tokens are rejected with that reason.
  package var isRevoked: Bool
  /// The index of its verifier in the driver's table for this snapshot.
  package var index: Int
  /// Distinguishes public keys under the same id: the first bytes of its SHA-256. What was trusted under an older
  /// snapshot stays trusted only while this is unchanged.
  package var publicKey: UInt64

  package var isTeamScoped: Bool { topics == nil }

  package init(
    id: ShortID, team: ShortID, environments: EnvironmentSet, topics: [AppID]? = nil,
    relatedKey: ShortID? = nil, isRevoked: Bool = false, index: Int,
    publicKey: UInt64
  ) {
    self.id = id
    self.team = team
    self.environments = environments
    self.topics = topics
    self.relatedKey = relatedKey
    self.isRevoked = isRevoked
    self.index = index
    self.publicKey = publicKey
  }
}

/// A device that its operator has retired.
package struct RetiredDevice: Sendable, Hashable {
  package var id: DeviceID
  /// Unix seconds.
  package var sinceSeconds: Int64

  package init(id: DeviceID, sinceSeconds: Int64) {
    self.id = id
    self.sinceSeconds = sinceSeconds
  }
}
