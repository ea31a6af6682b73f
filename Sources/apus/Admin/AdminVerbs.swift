import ApusCommand
import ApusDirectory
import ApusEnrolment
import ApusModel
import ApusTrust
import ApusWeb
import ApusWire

// The commands, applied to a remote service.

extension AdminRemote {
  // MARK: Teams, apps and keys

  func team() throws(CommandFailure) {
    guard let name = invocation[TrustOptions.teamToAdd] else {
      return showList(try ask("GET", ["teams"]), "teams", name: "team")
    }
    let made = try ask(
      "POST", ["teams"],
      body: .members([
        "name": .string(name), "team": invocation[TrustOptions.teamID].map(JSONValue.string),
      ]))
    show(made, "Added the team \(made["team"]?.string ?? "").\n")
  }

  func app() throws(CommandFailure) {
    if let topic = invocation[TrustOptions.appToAdd] {
      let made = try ask(
        "POST", ["apps"],
        body: .members([
          "topic": .string(topic), "team": invocation[TrustOptions.appTeam].map(JSONValue.string),
          "retain": invocation[TrustOptions.appRetention].map { .integer(Int64($0)) },
          "upstream": try UpstreamArguments(invocation).addition().map { Edit.set($0).request },
        ]))
      show(made, "Added the app \(topic) to team \(made["team"]?.string ?? "").\n")
    } else if let topic = invocation[TrustOptions.appToChange] {
      let change = try AppChange(invocation, topic)
      let changed = try ask("PATCH", ["apps", topic], body: change.request)
      show(changed, AppChange(changed).text)
    } else if let topic = invocation[TrustOptions.appToRemove] {
      show(try ask("DELETE", ["apps", topic]), "Removed the app \(topic).\n")
    } else {
      showList(try ask("GET", ["apps"]), "apps", name: "topic")
    }
  }

  func key() throws(CommandFailure) {
    if let id = invocation[TrustOptions.keyToRevoke] {
      show(
        try ask("POST", ["keys", id, "revoke"]),
        "Revoked the key \(id). The service closes its connections within a second.\n")
    } else if invocation.isOn(TrustOptions.keyToAdd) {
      try addKey()
    } else {
      showList(try ask("GET", ["keys"]), "keys", name: "key")
    }
  }

  private func addKey() throws(CommandFailure) {
    var publicPEM: String?
    if let path = invocation[TrustOptions.publicKey] {
      publicPEM = try Process.text(of: path, for: TrustOptions.publicKey, invocation)
    }
    let topics = invocation.all(TrustOptions.keyTopics)
    let environments = invocation.value(TrustOptions.keyEnvironment)
    let made = try ask(
      "POST", ["keys"],
      body: .members([
        "team": invocation[TrustOptions.keyTeam].map(JSONValue.string),
        "key": invocation[TrustOptions.keyID].map(JSONValue.string),
        "environments": .string(
          environments == .both
            ? "both" : environments == .production ? "production" : "development"),
        "topics": topics.isEmpty ? nil : .strings(topics),
        "related": invocation[TrustOptions.relatedKey].map(JSONValue.string),
        "public_key": publicPEM.map(JSONValue.string),
      ]))
    let id = made["key"]?.string ?? ""
    var rows = [("key id", id), ("team", made["team"]?.string ?? "")]
    var file: String?
    if let secret = made["private_key"]?.string {
      let path = "\(id).p8"
      try write(secret, path)
      rows.append(("key", path))
      file = path
    }
    // The private key is only in its file, not in the output.
    let shown = JSONValue.members([
      "key_id": .string(id), "team": made["team"], "key_file": file.map(JSONValue.string),
    ])
    show(shown, "Added a provider key.\n" + table(rows))
  }

  private func write(_ secret: String, _ path: String) throws(CommandFailure) {
    guard !Files.exists(path) else {
      throw CommandFailure(
        .failed, "\(path) already exists, so the new key was not saved",
        remedy: "Revoke the new key, and add another one in an empty directory.")
    }
    do throws(FileError) {
      try Files.write(secret, to: path, isPrivate: true)
    } catch {
      throw CommandFailure(
        .failed, "\(error)", remedy: "The service added the key; revoke it, and add another.")
    }
  }

  // MARK: Certificates and authorities

  func certificate() throws(CommandFailure) {
    guard let given = invocation[TrustOptions.certificateToRevoke] else {
      throw CommandFailure(
        .usage, "only the service's machine, which has the keys, can issue certificates",
        remedy: "Run `apus cert` there; only --revoke works remotely.")
    }
    let digest: SHA256Digest
    if let known = SHA256Digest(hex: given) {
      digest = known
    } else {
      let pem = try Process.text(of: given, for: TrustOptions.certificateToRevoke, invocation)
      do throws(TrustFault) {
        digest = try Certificate(pem: pem).fingerprint
      } catch {
        throw invocation.failure(
          .configuration, about: TrustOptions.certificateToRevoke, "\(error)")
      }
    }
    show(
      try ask("POST", ["certificates", digest.hex, "revoke"]),
      "Revoked the certificate \(digest.hex).\n"
        + "The service closes its connections within a second.\n")
  }

  func rotate(_ what: Rotation, isFinish: Bool = false) throws(CommandFailure) {
    let said = try ask(
      "POST", ["rotations"],
      body: .members([
        "what": .string(what.rawValue),
        "finish": isFinish ? .bool(true) : nil,
        "force": invocation.isOn(TrustOptions.force) ? .bool(true) : nil,
      ]))
    show(said, Self.rows(said))
  }

  // MARK: Devices and codes

  func device(_ action: DeviceAction, _ operands: [String]) throws(CommandFailure) {
    switch action {
    case .list: try DeviceView(invocation).list(operands.first, self)
    case .show: try DeviceView(invocation).show(operands[0], self)
    case .add:
      throw CommandFailure(
        .usage, "only the service's machine, which has the keys, can issue certificates",
        remedy: "Run `apus device add` there; all other actions work remotely.")
    case .set: try setLabels(operands[0])
    case .retire:
      for device in operands {
        let said = try ask("POST", ["devices", device, "retire"])
        show(
          said,
          "Retired the device \(said["retired"]?.string ?? device). The service applies this within "
            + "a second.\n")
      }
    case .pending: showList(try ask("GET", ["enrolments"]), "enrolments", name: "key")
    case .approve: for key in try PendingCommand.keys(operands, invocation) { try approve(key) }
    case .reject:
      for key in try PendingCommand.keys(operands, invocation) {
        show(
          try ask("POST", ["enrolments", key, "reject"]),
          "Rejected the request \(key). The device is told when it asks again.\n")
      }
    }
  }

  private func setLabels(_ device: String) throws(CommandFailure) {
    let edit = try LabelEdit(invocation)
    let name: JSONValue? =
      switch edit.name {
      case .keep: nil
      case .remove: .null
      case .set(let name): .string(name.text)
      }
    let said = try ask(
      "PATCH", ["devices", device],
      body: .members([
        "name": name,
        "add_tags": edit.added.isEmpty ? nil : .strings(edit.added.map(\.text)),
        "remove_tags": edit.removedKeys.isEmpty ? nil : .strings(edit.removedKeys),
      ]))
    let (id, tags) = (said["device"]?.string ?? device, said["tags"]?.array ?? [])
    let labels = DeviceLabels(
      name: (said["name"]?.string).flatMap { DeviceName($0) },
      tags: tags.compactMap(\.string).compactMap { DeviceTag($0) })
    show(said, "The device \(id) has \(labels?.text ?? "other labels") now.\n")
  }

  private func approve(_ key: String) throws(CommandFailure) {
    var pem: String?
    if let path = invocation[DeviceOptions.certificate] {
      pem = try Process.text(of: path, for: DeviceOptions.certificate, invocation)
    }
    let said = try ask(
      "POST", ["enrolments", key, "approve"],
      body: .members([
        "certificate": pem.map(JSONValue.string),
        "name": (invocation[DeviceOptions.name]?.text).map(JSONValue.string),
        "tags": Self.tags(invocation.all(DeviceOptions.tag)),
        "days": .integer(Int64(invocation.value(DeviceOptions.days))),
      ]))
    show(
      said,
      "Approved the device \(said["device"]?.string ?? ""). It gets its certificate when it asks "
        + "again.\n")
  }

  private static func tags(_ tags: [DeviceTag]) -> JSONValue? {
    tags.isEmpty ? nil : .strings(tags.map(\.text))
  }

  func code() throws(CommandFailure) {
    if invocation.isOn(EnrolmentOptions.list) {
      return showList(try ask("GET", ["codes"]), "codes", name: "sha256")
    }
    if let text = invocation[EnrolmentOptions.withdraw] {
      // Only the hash goes into the URL: proxies may log URLs.
      let bytes = Array(text.utf8)
      let hash = EnrolmentCode(text: bytes.span).map(EnrolmentCodes.hash) ?? text.lowercased()
      return show(
        try ask("DELETE", ["codes", hash]),
        "Withdrew the code. Devices enrolled with it stay; `apus device retire` retires one.\n")
    }
    let made = try ask(
      "POST", ["codes"],
      body: .members([
        "name": (invocation[EnrolmentOptions.codeName]?.text).map(JSONValue.string),
        "tags": Self.tags(invocation.all(EnrolmentOptions.codeTags)),
        "own_tags": invocation.isOn(EnrolmentOptions.ownTags) ? .bool(true) : nil,
        "hours": .integer(Int64(invocation.value(EnrolmentOptions.expires))),
        "uses": .integer(Int64(invocation.value(EnrolmentOptions.uses))),
      ]))
    show(
      made,
      "\(made["code"]?.string ?? "")\n\nValid until \(made["expires"]?.string ?? ""). It is not "
        + "shown again.\n")
  }

  // MARK: The ledger

  func log() throws(CommandFailure) {
    let refusals = LogRefusals(invocation: invocation)
    guard !invocation.isOn(LogOptions.refused) else {
      return refusals.print(try self.refusals(refusals.query()))
    }
    guard !invocation.isOn(LogOptions.counts) else {
      return try LogCounts(invocation: invocation).print(self)
    }
    var timeline = LogTimeline(invocation)
    var (count, position) = try printLines(after: nil, &timeline)
    if count == 0, invocation.isGiven(LogOptions.id), !timeline.hasRefusals {
      refusals.print(try self.refusals(refusals.query()))
    }
    guard invocation.isOn(LogOptions.follow) else { return }
    while !Process.isInterrupted(afterMilliseconds: 1000) {
      (count, position) = try printLines(after: position, &timeline)
    }
  }

  /// Prints matching lines after a position in the ledger. Returns the number of lines and the end position.
  private func printLines(
    after position: String?, _ timeline: inout LogTimeline
  ) throws(CommandFailure) -> (count: Int, position: String?) {
    let now = Process.nowSeconds * 1000
    func moment(_ option: Option<Moment>) -> JSONValue? {
      invocation[option].map { .integer($0.milliseconds(nowMilliseconds: now)) }
    }
    let states = Set(invocation.all(LogOptions.state).flatMap { $0 })
    let said = try ask(
      "POST", ["ledger", "query"],
      body: .members([
        "id": (invocation[LogOptions.id]?.text).map(JSONValue.string),
        "unique_id": (invocation[LogOptions.uniqueID]?.text).map(JSONValue.string),
        "token": invocation[LogOptions.token].map(JSONValue.string),
        "device": invocation[LogOptions.device].map(JSONValue.string),
        "topic": invocation[LogOptions.topic].map(JSONValue.string),
        "states": states.isEmpty ? nil : .strings(states.map { "\($0.label)" }.sorted()),
        "since_milliseconds": moment(LogOptions.since),
        "until_milliseconds": moment(LogOptions.until),
        "after": position.map(JSONValue.string),
        "limit": .integer(Int64(min(invocation.value(LogOptions.limit), Limits.adminPageLines))),
      ]))
    let token = invocation[LogOptions.token].map { "\($0.prefix(8).lowercased())…" }
    let refused =
      timeline.hasRefusals
      ? try refusals(
        timeline.query(device: nil, token: token), device: invocation[LogOptions.device]) : []
    return (timeline.print(said["lines"]?.array ?? [], refused), said["position"]?.string)
  }

  private func refusals(
    _ query: RefusalLog.Query, device: String? = nil
  ) throws(CommandFailure) -> [JSONValue] {
    let limit = min(invocation.value(LogOptions.limit), Limits.adminPageLines)
    let fields = [
      ("limit", "\(limit)"), ("event", "request.refused"), ("id", query.id?.text),
      ("topic", query.topic), ("device", device), ("token", query.token),
      ("since_milliseconds", query.sinceMilliseconds.map(String.init)),
      ("until_milliseconds", query.untilMilliseconds.map(String.init)),
    ]
    let said = try ask(
      "GET", ["refusals"],
      query: fields.compactMap { name, value in value.map { WebField(name, $0) } })
    return (said["entries"]?.array ?? []).reversed()
  }

  func counters(_ query: [(String, String)]) throws(CommandFailure) -> JSONValue {
    try ask("GET", ["counters"], query: query.map { WebField($0, $1) })
  }
}
