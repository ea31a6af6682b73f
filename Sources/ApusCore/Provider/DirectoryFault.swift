package import ApusModel

/// All contradictions that prevent building a directory.
package struct DirectoryFaults: Error, Sendable, Equatable, CustomStringConvertible {
  /// At least one.
  package var faults: [DirectoryFault]

  package var description: String {
    faults.map(\.description).joined(separator: "\n")
  }
}

/// One contradiction between the records of a directory.
package enum DirectoryFault: Sendable, Hashable, CustomStringConvertible {
  case teamTwice(ShortID)
  case appNumberZero(bundleID: [UInt8])
  case appNumberTwice(AppID)
  case bundleIDTwice([UInt8])
  case bundleIDSyntax([UInt8], longestByteCount: Int)
  case appOfUnknownTeam(bundleID: [UInt8], team: ShortID)
  case appRetention(bundleID: [UInt8], count: Int)
  case keyTwice(ShortID)
  case verifierShared(ShortID, ShortID, index: Int)
  case keyOfUnknownTeam(key: ShortID, team: ShortID)
  case keyWithoutEnvironment(ShortID)
  case keyWithoutTopics(ShortID)
  case tooManyTopics(key: ShortID, count: Int)
  case keyTopicTwice(key: ShortID, app: AppID)
  case keyOfUnknownApp(key: ShortID, app: AppID)
  case keyOfForeignApp(key: ShortID, app: AppID, owner: ShortID)
  case relatedKeyUnknown(key: ShortID, related: ShortID)
  case relatedKeyTeamScoped(key: ShortID, related: ShortID)
  case relatedKeyOfOtherTeam(key: ShortID, related: ShortID)
  case relatedKeyTaken(key: ShortID, related: ShortID, by: ShortID)
  case tooManyTeamKeys(team: ShortID, environment: Environment, count: Int)
  case tooManyTopicKeys(team: ShortID, environment: Environment, count: Int)
  case deviceRetiredTwice(DeviceID)

  /// What is wrong, where, and how to fix it.
  package var description: String {
    switch self {
    case .teamTwice(let team): "team \(team.text) is listed twice: remove one entry"
    case .appNumberZero(let bundleID):
      "app \(shown(bundleID)) has the reserved number 0: give it another"
    case .appNumberTwice(let app):
      "app number \(app.rawValue) is given to two apps: each needs its own"
    case .bundleIDTwice(let bundleID):
      "bundle id \(shown(bundleID)) is registered twice: remove one entry"
    case .bundleIDSyntax(let bundleID, let longest):
      "bundle id \(shown(bundleID)) is not valid: use 1 to \(longest) letters, digits, hyphens "
        + "and underscores, separated by single full stops"
    case .appOfUnknownTeam(let bundleID, let team):
      "app \(shown(bundleID)) belongs to team \(team.text), which is not registered: add the team"
    case .appRetention(let bundleID, let count):
      "app \(shown(bundleID)) retains \(count) notifications for a device: choose 1 to "
        + "\(Limits.retainedNotifications)"
    case .keyTwice(let key): "key \(key.text) is listed twice: remove one entry"
    case .verifierShared(let first, let second, let index):
      "keys \(first.text) and \(second.text) share verifier \(index): each needs its own"
    case .keyOfUnknownTeam(let key, let team):
      "key \(key.text) belongs to team \(team.text), which is not registered: add the team"
    case .keyWithoutEnvironment(let key):
      "key \(key.text) is valid in no environment: name production, development or both"
    case .keyWithoutTopics(let key):
      "topic-specific key \(key.text) has no topics: assign some, or make it team-scoped"
    case .tooManyTopics(let key, let count):
      "key \(key.text) has \(count) topics; at most \(Limits.topicsPerKey) are allowed"
    case .keyTopicTwice(let key, let app):
      "key \(key.text) lists app \(app.rawValue) twice: remove one entry"
    case .keyOfUnknownApp(let key, let app):
      "key \(key.text) lists app \(app.rawValue), which is not registered: add the app"
    case .keyOfForeignApp(let key, let app, let owner):
      "key \(key.text) lists app \(app.rawValue) of team \(owner.text): a key covers apps of its "
        + "own team only"
    case .tooManyTeamKeys(let team, let environment, let count):
      "team \(team.text) has \(count) team-scoped keys for \(environment.name); at most "
        + "\(Limits.teamKeysPerEnvironment) are allowed: revoke one"
    case .tooManyTopicKeys(let team, let environment, let count):
      "team \(team.text) has \(count) topic-specific keys for \(environment.name); at most "
        + "\(Limits.topicKeysPerEnvironment) are allowed: revoke some"
    case .relatedKeyUnknown(let key, let related):
      "key \(key.text) is related to \(related.text), which is not another registered key"
    case .relatedKeyTeamScoped(let key, let related):
      "keys \(key.text) and \(related.text) cannot be related: only topic-specific keys can"
    case .relatedKeyOfOtherTeam(let key, let related):
      "keys \(key.text) and \(related.text) cannot be related: they belong to different teams"
    case .relatedKeyTaken(let key, let related, let other):
      "key \(key.text) cannot be related to \(related.text), which is related to \(other.text): "
        + "a key has one related key at most"
    case .deviceRetiredTwice(let device):
      "device \(device.text) is retired twice: remove one entry"
    }
  }
}

/// Bytes from a record or a request, safe for a log: printable ASCII, at most 100 bytes.
func shown(_ bytes: [UInt8]) -> String { shown(bytes.span) }

func shown(_ bytes: Span<UInt8>) -> String {
  var text = "\""
  for index in 0..<min(bytes.count, 100) {
    let byte = bytes[index]
    switch byte {
    case 0x22, 0x5c: text += "\\" + String(UnicodeScalar(byte))
    case 0x20..<0x7f: text += String(UnicodeScalar(byte))
    default:
      text += "\\x" + String(UnicodeScalar(hexDigit(byte >> 4)))
      text += String(UnicodeScalar(hexDigit(byte & 15)))
    }
  }
  return text + (bytes.count > 100 ? "\"…" : "\"")
}
