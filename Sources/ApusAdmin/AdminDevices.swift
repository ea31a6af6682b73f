import ApusCore
import ApusDirectory
import ApusEnrolment
import ApusLog
import ApusModel
import ApusTrust
import ApusWeb
import ApusWire

/// Enrolment requests, enrolment codes and retirement of devices.
extension AdminChanges {
  private var directory: DataDirectory { view.directory }

  // MARK: Enrolment

  func listEnrolments() throws(AdminProblem) -> WebResponse {
    try input.requireAllUsed()
    let requests = try attempt { try directory.pendingEnrolments.all() }
    let values = requests.map { request in
      JSONValue.fields([
        "key": .string(request.key), "state": .string(request.state.text),
        "name": .string(request.name), "address": .string(request.address),
        "since": .string(Log.timestamp(request.seconds * 1000)),
        "device": .string(request.device.text), "origin": .string(request.origin.rawValue),
        "tags": .array(request.tags.map { .string($0.text) }),
      ])
    }
    return WebResponse(json: .fields(["enrolments": .array(values)]))
  }

  func approveEnrolment() throws(AdminProblem) -> WebResponse {
    let key = try key()
    let name = try input.value("name", "a name: \(DeviceName.form)") { DeviceName($0)?.text }
    let tags = try tags("tags")
    let pem = try input.value("certificate", "a certificate as PEM") {
      $0.utf8.count <= 16_384 ? $0 : nil
    }
    let days = try input.integer(
      "days", 1...3650, default: Int64(DataDirectory.ValidityDays.device))
    try input.requireAllUsed()
    try requireEnrolment(key)
    let (request, certificate) = try attempt {
      try directory.approveEnrolment(
        key, certificatePEM: pem, name: name, tags: tags, nowSeconds: view.nowSeconds,
        days: Int(days))
    }
    record(
      .enrolmentApproved,
      "device \(request.device.text), certificate \(certificate.fingerprint.hex)")
    return WebResponse(
      json: .fields([
        "device": .string(request.device.text), "key": .string(request.key),
        "sha256": .string(certificate.fingerprint.hex),
        "not_after": .string(Log.timestamp(certificate.notAfter * 1000)),
      ]))
  }

  func rejectEnrolment() throws(AdminProblem) -> WebResponse {
    let key = try key()
    try input.requireAllUsed()
    try requireEnrolment(key)
    let request = try attempt { try directory.rejectEnrolment(key) }
    record(.enrolmentRejected, "device \(request.device.text), key \(request.key)")
    return WebResponse(json: .fields(["rejected": .string(request.key)]))
  }

  /// A prefix of the key is sufficient, as for the command.
  private func key() throws(AdminProblem) -> String {
    try input.parameter("key", { Self.digits($0) }, "8 to 64 hexadecimal digits")
  }

  private static func digits(_ text: String) -> String? {
    let isFit = 8...64 ~= text.utf8.count && text.utf8.allSatisfy { hexValue($0) != nil }
    return isFit ? text.lowercased() : nil
  }

  private func requireEnrolment(_ key: String) throws(AdminProblem) {
    let requests = try attempt { try directory.pendingEnrolments.all() }
    guard requests.contains(where: { $0.key.hasPrefix(key) }) else {
      throw AdminProblem(.notFound, "no pending request has a key that begins with \(key)")
    }
  }

  // MARK: Devices

  func retireDevice() throws(AdminProblem) -> WebResponse {
    let device = try input.device(view)
    try input.requireAllUsed()
    try attempt { try directory.retire(device, nowSeconds: view.nowSeconds) }
    record(.deviceRetired, "device \(device.text)")
    return WebResponse(json: .fields(["retired": .string(device.text)]))
  }

  /// Changes the name and the tags of a device.
  func labelDevice() throws(AdminProblem) -> WebResponse {
    let device = try input.device(view)
    var edit = LabelEdit()
    if input.isNull("name") {
      edit.name = .remove
    } else if let name = try input.value("name", "a name: \(DeviceName.form)", { DeviceName($0) }) {
      edit.name = .set(name)
    }
    edit.added = try tags("add_tags")
    for key in try input.texts("remove_tags", maximumCount: Limits.tagsPerDevice) {
      guard let tag = DeviceTag(key), tag.key == key else {
        throw AdminProblem(.invalid, "\"\(key)\" is not the key of a tag")
      }
      edit.removedKeys.append(key)
    }
    try input.requireAllUsed()
    guard !edit.isEmpty else {
      throw AdminProblem(
        .invalid, "nothing to change: give \"name\", \"add_tags\" or \"remove_tags\"")
    }
    let retired = view.trust.directory
    let labels = try attempt {
      try view.labels.edit(device, edit) { retired.retiredMilliseconds(of: $0) != nil }
    }
    record(.deviceLabelled, "device \(device.text), \(labels.text)")
    return WebResponse(
      json: .fields([
        "device": .string(device.text), "name": (labels.name?.text).map(JSONValue.string),
        "tags": labels.tagsJSON,
      ]))
  }

  private func tags(_ member: String) throws(AdminProblem) -> [DeviceTag] {
    var tags: [DeviceTag] = []
    for text in try input.texts(member, maximumCount: Limits.tagsPerDevice) {
      guard let tag = DeviceTag(text) else {
        throw AdminProblem(.invalid, "\"\(text)\" is not a tag: \(DeviceTag.form)")
      }
      tags.append(tag)
    }
    return tags
  }

  func listTags() throws(AdminProblem) -> WebResponse {
    try input.requireAllUsed()
    let tags = view.labels.currentIndex().tagCounts.map { tag, devices in
      JSONValue.fields(["tag": .string(tag.text), "devices": .number(devices)])
    }
    return WebResponse(json: .fields(["tags": .array(tags)]))
  }

  // MARK: Codes

  func listCodes() throws(AdminProblem) -> WebResponse {
    try input.requireAllUsed()
    let now = view.nowSeconds
    let codes = try attempt { try directory.enrolmentCodes.all() }
    let values = codes.map { hash, record, used in
      let state =
        used >= record.uses ? "used up" : now >= record.expiresSeconds ? "expired" : "good"
      return JSONValue.fields([
        "sha256": .string(hash), "name": record.name.map(JSONValue.string),
        "tags": .array(record.tags.map { .string($0.text) }),
        "own_tags": .bool(record.allowsOwnTags),
        "made": .string(Log.timestamp(record.madeSeconds * 1000)),
        "expires": .string(Log.timestamp(record.expiresSeconds * 1000)),
        "uses": .number(record.uses), "used": .number(used), "state": .string(state),
      ])
    }
    return WebResponse(json: .fields(["codes": .array(values)]))
  }

  func makeCode() throws(AdminProblem) -> WebResponse {
    let name = try input.value("name", "a name: \(DeviceName.form)") { DeviceName($0)?.text }
    let tags = try tags("tags")
    let allowsOwnTags = try input.bool("own_tags")
    let hours = try input.integer("hours", 1...8760, default: 24)
    let uses = try input.integer("uses", 1...Int64(Limits.enrolmentCodeUses), default: 1)
    try input.requireAllUsed()
    let now = view.nowSeconds
    let made = EnrolmentCodes.Record(
      name: name, madeSeconds: now, expiresSeconds: now + hours * 3600, uses: Int(uses),
      tags: tags, allowsOwnTags: allowsOwnTags)
    let code = try attempt { try directory.enrolmentCodes.make(made) }
    let hash = EnrolmentCodes.hash(code)
    record(.codeMade, "code \(hash.prefix(16)), \(uses) uses")
    return WebResponse(
      json: .fields([
        // Only this response contains the code.
        "code": .string(code.text), "sha256": .string(hash),
        "expires": .string(Log.timestamp(made.expiresSeconds * 1000)), "uses": .integer(uses),
        "name": name.map(JSONValue.string),
      ]), status: 201)
  }

  func withdrawCode() throws(AdminProblem) -> WebResponse {
    let prefix = try input.parameter("sha256", { Self.digits($0) }, "8 to 64 hexadecimal digits")
    try input.requireAllUsed()
    let codes = directory.enrolmentCodes
    let found = try attempt { try codes.all().map(\.hash).filter { $0.hasPrefix(prefix) } }
    guard found.count <= 1 else {
      throw AdminProblem(.conflict, "\(found.count) codes begin with \(prefix)")
    }
    guard let hash = found.first, try attempt({ try codes.withdraw(hash: hash) }) else {
      throw AdminProblem(.notFound, "no code has a SHA-256 that begins with \(prefix)")
    }
    record(.codeWithdrawn, "code \(hash.prefix(16))")
    return WebResponse(json: .fields(["withdrawn": .string(hash)]))
  }
}

extension DeviceLabels {
  var tagsJSON: JSONValue { .array(tags.map { .string($0.text) }) }
}

extension PendingEnrolments.State {
  var text: String {
    switch self {
    case .waiting: "waiting"
    case .approved: "approved"
    case .rejected: "rejected"
    }
  }
}
