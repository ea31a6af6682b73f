package import ApusCore
package import ApusModel
package import ApusTrust
import ApusWire

// Operators' changes to `directory.conf`, one record at a time. A running service applies each within a second.

extension DataDirectory {
  package func addTeam(_ id: ShortID? = nil, name: String) throws -> ShortID {
    let id = id ?? Self.randomShortID()
    try edit { text, records in
      try refuseSecond("team", id.text, records)
      text.append(.init(kind: "team", name: id.text, values: [("name", name)]))
    }
    return id
  }

  /// App numbers are random, not sequential: a device token contains its app's number, which must not identify another
  /// app added after the first was removed.
  ///
  /// - Parameters:
  ///   - retention: How many of the app's notifications are stored for each device; nil writes no value, which means 1.
  ///   - broadcasts: Whether it may have channels.
  ///   - upstream: Where notifications go whose device tokens this service did not issue.
  package func addApp(
    _ topic: String, team: ShortID, retention: Int? = nil, broadcasts: Bool = false,
    upstream: UpstreamChange? = nil
  ) throws {
    try changing {
      try addApp(topic, team, retention, broadcasts)
      guard let upstream else { return }
      do { try changeApp(topic, upstream: .set(upstream)) } catch {
        try removeApp(topic)
        throw error
      }
    }
  }

  private func addApp(
    _ topic: String, _ team: ShortID, _ retention: Int?, _ broadcasts: Bool
  ) throws {
    try edit { text, records in
      try refuseSecond("app", topic, records)
      let used = Set(records.sections.filter { $0.kind == "app" }.compactMap { $0["id"] })
      var number = UInt32(0)
      repeat {
        number = UInt32(truncatingIfNeeded: randomID().low)
      } while number == 0 || used.contains(String(number))
      var values = [("id", String(number)), ("team", team.text)]
      if let retention { values.append(("retain", String(retention))) }
      if broadcasts { values.append(("broadcast", "on")) }
      text.append(.init(kind: "app", name: topic, values: values))
    }
  }

  /// Changes an app; what is nil stays as it is.
  ///
  /// - Parameters:
  ///   - retention: How many of its notifications are stored for each device.
  ///   - broadcasts: Whether it may have channels. The running service deletes those of an app that may not.
  ///   - upstream: Where notifications go whose device tokens this service did not issue.
  package func changeApp(
    _ topic: String, retention: Int? = nil, broadcasts: Bool? = nil,
    upstream: Edit<UpstreamChange>? = nil
  ) throws {
    try requireProvisioned()
    try changing {
      let section = try section("app", topic, of: records())
      let update = try upstream.map { try UpstreamUpdate($0, of: section, in: self) }
      do {
        try update?.writeFiles(of: self)
        try edit { text, _ in
          if let retention { text.set("retain", to: String(retention), in: section) }
          if let broadcasts { text.set("broadcast", to: broadcasts ? "on" : "off", in: section) }
          if let update { text.set(update.settings, in: section) }
        }
      } catch {
        update?.undo()
        throw error
      }
      try update?.removeUnused()
    }
  }

  /// Removes an app with the files of its upstream.
  package func removeApp(_ topic: String) throws {
    try changing {
      try edit { text, records in text.remove(try section("app", topic, of: records)) }
      try (try? UpstreamFiles(self, topic))?.remove()
    }
  }

  /// Where a new provider key is valid.
  package struct KeyScope: Sendable {
    package var team: ShortID
    package var environments: EnvironmentSet
    /// Bundle ids; empty for a key that covers the whole team.
    package var topics: [String]
    package var related: ShortID?

    package init(
      team: ShortID, environments: EnvironmentSet, topics: [String] = [], related: ShortID? = nil
    ) {
      self.team = team
      self.environments = environments
      self.topics = topics
      self.related = related
    }
  }

  /// Registers a provider key.
  ///
  /// - Parameter publicPEM: The public half of a key that the provider made; nil makes a new key, whose private half is
  ///   written to ``privateKey(_:)`` for the provider.
  package func addKey(
    _ id: ShortID? = nil, scope: KeyScope, publicPEM: String? = nil
  ) throws -> ShortID {
    try changing {
      let id = id ?? Self.randomShortID()
      let publicKey = try publicPEM.map { try PublicKey(spkiPEM: $0) }
      if let publicKey, publicKey.kind != .p256 {
        throw DirectoryProblem("a provider key must be ECDSA on P-256: APNs accepts only ES256")
      }
      guard !Files.exists(self.publicKey(id)) else {
        throw DirectoryProblem("the key \(id.text) already exists (\(self.publicKey(id)))")
      }
      // Write the file first: a service that reloads in between must find the key that the record names.
      if let publicKey {
        try Files.write(publicKey.spkiPEM, to: self.publicKey(id), isPrivate: false)
      } else {
        try savePrivateKey(.generateP256(), as: id)
      }
      do {
        try edit { text, records in
          try refuseSecond("key", id.text, records)
          text.append(.init(kind: "key", name: id.text, values: scope.values))
        }
      } catch {
        Files.remove(self.publicKey(id))
        Files.remove(privateKey(id))
        throw error
      }
      return id
    }
  }

  /// Revokes a provider key permanently. The service closes connections that were authenticated with it.
  package func revokeKey(_ id: ShortID) throws {
    try edit { text, records in
      let section = try section("key", id.text, of: records)
      guard section["revoked"] != "yes" else {
        throw DirectoryProblem("the key \(id.text) is already revoked")
      }
      text.set("revoked", to: "yes", in: section)
    }
  }

  /// Revokes a certificate that an authority of this service, or one below it, issued.
  package func revokeCertificate(_ fingerprint: SHA256Digest) throws {
    try edit { text, records in
      guard
        !records.sections.contains(where: { $0.kind == "revoked" && $0.name == fingerprint.hex })
      else { throw DirectoryProblem("the certificate is already revoked") }
      text.append(.init(kind: "revoked", name: fingerprint.hex))
    }
  }

  private func refuseSecond(
    _ kind: String, _ name: String, _ records: SectionFile
  ) throws(DirectoryProblem) {
    for section in records.sections where section.kind == kind && section.name == name {
      throw DirectoryProblem(
        "the \(kind) \(name) already exists (\(directoryFile), line \(section.line))")
    }
  }
}

extension DataDirectory.KeyScope {
  fileprivate var values: [(String, String)] {
    let names = Environment.allCases.filter { environments.contains($0) }.map(\.name)
    var values = [("team", team.text), ("environments", names.joined(separator: " "))]
    if !topics.isEmpty { values.append(("topics", topics.joined(separator: " "))) }
    if let related { values.append(("related", related.text)) }
    return values
  }
}
