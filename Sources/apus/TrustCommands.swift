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
      text: "The team \(id.text) is added.\n"
    ).print(invocation)
  }
}

/// `apus app`
struct AppCommand {
  let invocation: Invocation
  let user: Operator

  init(_ invocation: Invocation) {
    self.invocation = invocation
    user = Operator(invocation)
  }

  func run() throws(CommandFailure) {
    if let remote = try AdminRemote(invocation) { return try remote.app() }
    if let topic = invocation[TrustOptions.appToAdd] {
      let team = try user.team(TrustOptions.appTeam)
      let retention = invocation[TrustOptions.appRetention]
      try user.attempt { try user.directory.addApp(topic, team: team, retention: retention) }
      user.record(.appAdded, "app \(topic)")
      Report(
        fields: ["topic": .string(topic), "team": .string(team.text)],
        text: "The app \(topic) is added to team \(team.text).\n"
      ).print(invocation)
    } else if let topic = invocation[TrustOptions.appToChange] {
      let retention = try invocation.require(TrustOptions.appRetention)
      try user.attempt { try user.directory.changeApp(topic, retention: retention) }
      user.record(.appChanged, "app \(topic)")
      Report(
        fields: ["topic": .string(topic), "retain": .integer(Int64(retention))],
        text: "Of the app \(topic) the newest \(retention) wait for a device that is away.\n"
      ).print(invocation)
    } else if invocation.isGiven(TrustOptions.appRetention) {
      throw invocation.missing(TrustOptions.appToChange.description)
    } else if let topic = invocation[TrustOptions.appToRemove] {
      try user.attempt { try user.directory.removeApp(topic) }
      user.record(.appRemoved, "app \(topic)")
      Report(fields: ["removed": .string(topic)], text: "The app \(topic) is taken out.\n")
        .print(invocation)
    } else {
      try user.list("app", ["team", "id", "retain"])
    }
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
          .usage, "\"\(verb)\" is nothing that can be done with keys",
          remedy: "Say rotate, or nothing and one of the options.")
      }
      guard !invocation.isOn(TrustOptions.keyToAdd), invocation[TrustOptions.keyToRevoke] == nil
      else {
        throw CommandFailure(
          .usage, "rotate and the options for provider keys exclude each other",
          remedy: "Say them one after the other.")
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
      text: "A provider key is added.\n"
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
        "The key \(id.text) is revoked. A running service closes what it opened within a second.\n"
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
      throw CommandFailure(.usage, "\"\(text)\" cannot be rotated", remedy: "Name one of \(known).")
    }
    let isFinish = invocation.isOn(TrustOptions.finish)
    if invocation.isOn(TrustOptions.force), !isFinish || what != .deviceAuthority {
      throw invocation.failure(
        about: TrustOptions.force, "only `device-authority --finish` locks anybody out",
        remedy: "Leave --force out.")
    }
    if let remote = try AdminRemote(invocation) {
      try remote.refuse(TrustOptions.nextAuthority)
      try remote.refuse(TrustOptions.nextAuthorityKey)
      return try remote.rotate(what, isFinish: isFinish)
    }
    switch what {
    case .serviceAuthority: try rotate(.service, isFinish)
    case .deviceAuthority: try rotate(.devices, isFinish)
    case .server, .sealingKey:
      guard !invocation.isGiven(TrustOptions.nextAuthority) else {
        throw invocation.failure(
          about: TrustOptions.nextAuthority, "only an authority is followed by another",
          remedy: "Leave --authority out.")
      }
      guard !isFinish else {
        throw invocation.failure(
          about: TrustOptions.finish, "only an authority has others to be dropped",
          remedy: "Leave --finish out.")
      }
      if what == .server { try rotateServer() } else { try rotateSealingKey() }
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
        text: "Have the authority sign these, and give each certificate with "
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
      "sealing-key", "New device tokens are sealed with key \(number).", user.directory.sealingFile)
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
        ? " \(lockedOut) known device\(lockedOut == 1 ? "" : "s") can no longer connect." : ""
      report(which.rawValue, "No longer trusted: \(names).\(devices)", file)
    } else {
      let outside = try OutsideAuthority(
        TrustOptions.nextAuthority, TrustOptions.nextAuthorityKey, invocation)
      let new = try user.attempt {
        try directory.rotateAuthority(which, to: outside, nowSeconds: now)
      }
      let name = new.subject.commonName ?? new.serial
      user.record(.authorityRotated, "\(which.rawValue) authority, now \(name)")
      report(which.rawValue, "\(name) issues from now on; the older one is trusted too.", file)
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
          remedy: "\(DevicesWithoutCertificate.remedy) (apus device --retire), or give --force.")
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
