import ApusClient
import ApusCommand

/// The provider's signing key: that of the options, or the first of the data directory.
struct PushCredential {
  let keyPEM: [UInt8]
  let keyID: String
  let teamID: String

  init(_ invocation: Invocation) throws(CommandFailure) {
    let data = invocation.value(BenchOptions.data)
    var keyID = invocation[BenchOptions.pushKeyID]
    var teamID = invocation[BenchOptions.pushTeam]
    if keyID == nil || teamID == nil {
      let path = "\(data)/directory.conf"
      let known = Self.team(ofKey: keyID, in: try readText(path))
      guard let known else {
        throw CommandFailure(
          .configuration, "\(path) has no key\(keyID.map { " " + $0 } ?? "")",
          remedy: "Give --key, --key-id and --team, or make a key with `apus key`.")
      }
      keyID = known.keyID
      teamID = teamID ?? known.teamID
    }
    self.keyID = keyID ?? ""
    self.teamID = teamID ?? ""
    let path = invocation[BenchOptions.pushKey] ?? "\(data)/keys/\(self.keyID).p8"
    keyPEM = Array(try readText(path).utf8)
  }

  var credential: ClientConfiguration.Credential {
    .providerToken(keyPEM: keyPEM, keyID: keyID, teamID: teamID)
  }

  /// Reads `[key ID]` and the line `team = ID` below it, as written by `apus init`.
  ///
  /// - Parameter wanted: The key id; nil for the first key.
  static func team(ofKey wanted: String?, in text: String) -> (keyID: String, teamID: String)? {
    var keyID: String?
    for line in text.split(separator: "\n") {
      let words = line.split(separator: " ")
      if line.hasPrefix("[") {
        keyID = words.count == 2 && words[0] == "[key" ? String(words[1].dropLast()) : nil
        if let wanted, keyID != wanted { keyID = nil }
      } else if let keyID, words.count == 3, words[0] == "team", words[1] == "=" {
        return (keyID, String(words[2]))
      }
    }
    return nil
  }
}
