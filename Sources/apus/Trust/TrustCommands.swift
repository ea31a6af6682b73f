import ApusCommand
import ApusCore
import ApusDirectory
import ApusModel
import ApusTrust
import ApusWire

/// `apus team`
struct TeamCommand {
  let invocation: Invocation
  let user: Operator

  init(_ invocation: Invocation) {
    self.invocation = invocation
    user = Operator(invocation)
  }

  func run() throws(CommandFailure) {
    if let remote = try AdminRemote(invocation) { return try remote.team() }
    guard let name = invocation[TrustOptions.teamToAdd] else {
      return try user.list("team", ["name"])
    }
    let given = invocation[TrustOptions.teamID].flatMap(ShortID.init)
    let id = try user.attempt { try user.directory.addTeam(given, name: name) }
    user.record(.teamAdded, "team \(id.text)")
    Report(
      fields: ["team": .string(id.text), "name": .string(name)],
      text: "Added the team \(id.text).\n"
    ).print(invocation)
  }
}

/// `apus key`
struct KeyCommand {
  let invocation: Invocation
  let user: Operator

  init(_ invocation: Invocation) {
    self.invocation = invocation
    user = Operator(invocation)
  }

  func run() throws(CommandFailure) {
    if let verb = invocation.operands.first {
      guard verb == "rotate" else {
        throw CommandFailure(
          .usage, "unknown action \"\(verb)\"",
          remedy: "Use rotate, or no action and one of the options.")
      }
      guard !invocation.isOn(TrustOptions.keyToAdd), invocation[TrustOptions.keyToRevoke] == nil
      else {
        throw CommandFailure(
          .usage, "rotate cannot be combined with the options for provider keys",
          remedy: "Run two commands.")
      }
      if let remote = try AdminRemote(invocation) { return try remote.rotate(.sealingKey) }
      return try RotateCommand(invocation).rotateSealingKey()
    }
    if let remote = try AdminRemote(invocation) { return try remote.key() }
    if let text = invocation[TrustOptions.keyToRevoke] {
      try revoke(text)
    } else if invocation.isOn(TrustOptions.keyToAdd) {
      try add()
    } else {
      try user.list("key", ["team", "environments", "topics", "related", "revoked"])
    }
  }

  private func add() throws(CommandFailure) {
    let team = try user.team(TrustOptions.keyTeam)
    let scope = DataDirectory.KeyScope(
      team: team, environments: invocation.value(TrustOptions.keyEnvironment),
      topics: invocation.all(TrustOptions.keyTopics),
      related: invocation[TrustOptions.relatedKey].flatMap(ShortID.init))
    var publicPEM: String?
    if let path = invocation[TrustOptions.publicKey] {
      publicPEM = try Process.text(of: path, for: TrustOptions.publicKey, invocation)
    }
    let id = try user.attempt {
      try user.directory.addKey(
        invocation[TrustOptions.keyID].flatMap(ShortID.init), scope: scope, publicPEM: publicPEM)
    }
    user.record(.keyAdded, "key \(id.text)")
    let file = publicPEM == nil ? user.directory.privateKey(id) : nil
    Report(
      fields: [
        "key_id": .string(id.text), "team": .string(team.text),
        "key_file": file.map { .string($0) },
      ],
      text: "Added a provider key.\n"
        + table(
          [("key id", id.text), ("team", team.text)] + (file.map { [("key", $0)] } ?? []))
    ).print(invocation)
  }

  private func revoke(_ text: String) throws(CommandFailure) {
    guard let id = ShortID(text) else { return }
    try user.attempt { try user.directory.revokeKey(id) }
    user.record(.keyRevoked, "key \(id.text)")
    Report(
      fields: ["revoked": .string(id.text)],
      text:
        "Revoked the key \(id.text). A running service closes its connections within a second.\n"
    ).print(invocation)
  }
}

/// `apus rotate`
struct RotateCommand {
  let invocation: Invocation
  let user: Operator

  init(_ invocation: Invocation) {
    self.invocation = invocation
    user = Operator(invocation)
  }

  func run() throws(CommandFailure) {
    let text = invocation.operands[0]
    guard let what = Rotation(rawValue: text) else {
      let known = Rotation.allCases.map(\.rawValue).joined(separator: ", ")
      throw CommandFailure(.usage, "\"\(text)\" cannot be rotated", remedy: "Use one of \(known).")
    }
    let isFinish = invocation.isOn(TrustOptions.finish)
    if invocation.isOn(TrustOptions.force), !isFinish || what != .deviceAuthority {
      throw invocation.failure(
        about: TrustOptions.force, "it applies only to `device-authority --finish`",
        remedy: "Leave --force out.")
    }
    if let remote = try AdminRemote(invocation) {
      try remote.refuse(TrustOptions.nextAuthority)
      try remote.refuse(TrustOptions.nextAuthorityKey)
      try remote.refuse(TrustOptions.nextAuthorityName)
      return try remote.rotate(what, isFinish: isFinish)
    }
    try checkName(what, isFinish)
    switch what {
    case .serviceAuthority: try rotate(.service, isFinish)
    case .deviceAuthority: try rotate(.devices, isFinish)
    case .server, .sealingKey:
      guard !invocation.isGiven(TrustOptions.nextAuthority) else {
        throw invocation.failure(
          about: TrustOptions.nextAuthority,
          "it applies only to service-authority and device-authority",
          remedy: "Leave --authority out.")
      }
      guard !isFinish else {
        throw invocation.failure(
          about: TrustOptions.finish, "it applies only to service-authority and device-authority",
          remedy: "Leave --finish out.")
      }
      if what == .server { try rotateServer() } else { try rotateSealingKey() }
    }
  }

  /// Only a service authority that is made here gets a name.
  private func checkName(_ what: Rotation, _ isFinish: Bool) throws(CommandFailure) {
    guard invocation.isGiven(TrustOptions.nextAuthorityName) else { return }
    guard what == .serviceAuthority, !isFinish, !invocation.isGiven(TrustOptions.nextAuthority)
    else {
      throw invocation.failure(
        about: TrustOptions.nextAuthorityName, "it applies only to a new service-authority",
        remedy: "Leave --authority-name out.")
    }
  }

  private func rotateServer() throws(CommandFailure) {
    let directory = user.directory
    let requests = try user.attempt {
      try directory.rotateServer(nowSeconds: Process.nowSeconds)
    }
    guard requests.isEmpty else {
      return Report(
        fields: ["rotated": .string("server"), "request_files": .strings(requests)],
        text: "Have the authority sign these requests, and import each certificate with "
          + "apus cert --import FILE\n" + requests.map { "  \($0)\n" }.joined()
      ).print(invocation)
    }
    user.record(.certificateRenewed, "server")
    report("server", "The service has new certificates.", directory.serverFiles.certificate)
  }

  func rotateSealingKey() throws(CommandFailure) {
    let number = try user.attempt { try user.directory.rotateSealingKey() }
    user.record(.sealingKeyRotated, "sealing key \(number)")
    report(
      "sealing-key", "Key \(number) now seals new device tokens.", user.directory.sealingFile)
  }

  private func rotate(
    _ which: DataDirectory.Authority, _ isFinish: Bool
  ) throws(CommandFailure) {
    let (directory, now) = (user.directory, Process.nowSeconds)
    let file = directory.authorityCertificate(which)
    if isFinish {
      let finished = try finish(which, now)
      let lockedOut = finished.lockedOut.count
      let names = finished.dropped.map { $0.subject.commonName ?? $0.serial }.joined(
        separator: ", ")
      user.record(.authorityRotated, "\(which.rawValue) authority, dropped \(names)")
      let devices =
        lockedOut > 0
        ? " \(counted(lockedOut, "known device")) can no longer connect." : ""
      report(which.rawValue, "No longer trusted: \(names).\(devices)", file)
    } else {
      let outside = try OutsideAuthority(
        TrustOptions.nextAuthority, TrustOptions.nextAuthorityKey, invocation)
      let new = try user.attempt {
        try directory.rotateAuthority(
          which, to: outside, named: invocation[TrustOptions.nextAuthorityName], nowSeconds: now)
      }
      let name = new.subject.commonName ?? new.serial
      user.record(.authorityRotated, "\(which.rawValue) authority, now \(name)")
      report(which.rawValue, "\(name) now issues certificates; the older one stays trusted.", file)
    }
  }

  private func finish(
    _ which: DataDirectory.Authority, _ nowSeconds: Int64
  ) throws(CommandFailure) -> DataDirectory.FinishedRotation {
    try user.attempt {
      do {
        return try user.directory.finishRotation(
          of: which, locksOut: invocation.isOn(TrustOptions.force), nowSeconds: nowSeconds)
      } catch let refusal as DevicesWithoutCertificate {
        throw invocation.failure(
          .failed, about: TrustOptions.finish, "\(refusal)",
          remedy: "\(DevicesWithoutCertificate.remedy) (apus device retire), or give --force.")
      }
    }
  }

  private func report(_ what: String, _ text: String, _ file: String) {
    Report(
      fields: ["rotated": .string(what), "file": .string(file)],
      text: "\(text)\n" + table(["file": file])
    ).print(invocation)
  }
}
