import ApusCommand
import ApusDirectory
import ApusEnrolment
import ApusLog
import ApusModel
import ApusTrust
import ApusWire
import Glibc

extension DataDirectory {
  /// Writes an operator's enrolment action to the audit log.
  fileprivate func record(_ event: AuditEvent, _ subject: String, _ field: Log.Field) {
    AuditLog(path: auditFile).record(event, actor: "uid \(getuid())", subject: subject, field)
  }
}

/// `apus code`
struct CodeCommand {
  let invocation: Invocation

  init(_ invocation: Invocation) { self.invocation = invocation }

  func run() throws(CommandFailure) {
    if let remote = try AdminRemote(invocation) { return try remote.code() }
    let directory = DataDirectory(path: invocation.value(ApusOptions.data))
    do {
      try directory.requireProvisioned()
      if invocation.isOn(EnrolmentOptions.list) { return try list(directory.enrolmentCodes) }
      if let text = invocation[EnrolmentOptions.withdraw] {
        return try withdraw(text, directory)
      }
      try make(directory)
    } catch let failure as CommandFailure {
      throw failure
    } catch {
      throw CommandFailure(.configuration, "\(error)")
    }
  }

  private func make(_ directory: DataDirectory) throws {
    let now = Process.nowSeconds
    let record = EnrolmentCodes.Record(
      name: invocation[EnrolmentOptions.codeName]?.text, madeSeconds: now,
      expiresSeconds: now + Int64(invocation.value(EnrolmentOptions.expires)) * 3600,
      uses: invocation.value(EnrolmentOptions.uses),
      tags: invocation.all(EnrolmentOptions.codeTags),
      allowsOwnTags: invocation.isOn(EnrolmentOptions.ownTags))
    let code = try directory.enrolmentCodes.make(record)
    directory.record(
      .codeMade, "code \(EnrolmentCodes.hash(code).prefix(16))", .number("uses", record.uses))
    Report(
      fields: [
        "code": .string(code.text), "sha256": .string(EnrolmentCodes.hash(code)),
        "expires": .integer(record.expiresSeconds), "uses": .integer(Int64(record.uses)),
        "name": record.name.map(JSONValue.string),
      ],
      text: """
        \(code.text)

        Valid until \(Log.timestamp(record.expiresSeconds * 1000)), for \
        \(counted(record.uses, "device")). It is not shown again.

        """
    ).print(invocation)
  }

  private func list(_ codes: EnrolmentCodes) throws {
    let now = Process.nowSeconds
    for (hash, record, used) in try codes.all() {
      let state =
        used >= record.uses ? "used up" : now >= record.expiresSeconds ? "expired" : "good"
      let labels = ([record.name ?? ""] + record.tags.map(\.text)).joined(separator: " ")
      Report(
        fields: [
          "sha256": .string(hash), "name": record.name.map(JSONValue.string),
          "tags": .strings(record.tags.map(\.text)), "own_tags": .bool(record.allowsOwnTags),
          "made": .integer(record.madeSeconds), "expires": .integer(record.expiresSeconds),
          "uses": .integer(Int64(record.uses)), "used": .integer(Int64(used)),
          "state": .string(state),
        ],
        text: "\(hash.prefix(16))  \(state), \(used) of \(record.uses) used, until "
          + "\(Log.timestamp(record.expiresSeconds * 1000))  \(labels)\n"
      ).print(invocation)
    }
  }

  private func withdraw(_ text: String, _ directory: DataDirectory) throws {
    let codes = directory.enrolmentCodes
    let hash: String
    let bytes = Array(text.utf8)
    if let code = EnrolmentCode(text: bytes.span) {
      hash = EnrolmentCodes.hash(code)
    } else {
      let found = try codes.all().map(\.hash).filter { $0.hasPrefix(text.lowercased()) }
      guard text.utf8.count >= 8, found.count == 1 else {
        throw invocation.failure(
          .failed, about: EnrolmentOptions.withdraw,
          "is neither a code nor the first digits of a code in the list")
      }
      hash = found[0]
    }
    guard try codes.withdraw(hash: hash) else {
      throw invocation.failure(
        .failed, about: EnrolmentOptions.withdraw, "the code does not exist")
    }
    directory.record(
      .codeWithdrawn, "code \(hash.prefix(16))", .text("sha256", hash))
    Report(
      fields: ["withdrawn": .string(hash)],
      text:
        "Withdrew the code. Devices enrolled with it stay; `apus device retire` retires one.\n"
    ).print(invocation)
  }
}

/// `apus device` for pending certificate requests.
struct PendingCommand {
  let invocation: Invocation

  init(_ invocation: Invocation) { self.invocation = invocation }

  func run(_ action: DeviceAction, _ keys: [String]) throws(CommandFailure) {
    let directory = DataDirectory(path: invocation.value(ApusOptions.data))
    let keys = try Self.keys(keys, invocation)
    do {
      try directory.requireProvisioned()
      switch action {
      case .approve: for key in keys { try approve(key, directory) }
      case .reject: for key in keys { try reject(key, directory) }
      default: for request in try directory.pendingEnrolments.all() { list(request, directory) }
      }
    } catch let failure as CommandFailure {
      throw failure
    } catch {
      throw CommandFailure(.configuration, "\(error)")
    }
  }

  /// The beginnings of SHA-256, in lower case.
  static func keys(
    _ operands: [String], _ invocation: Invocation
  ) throws(CommandFailure) -> [String] {
    for text in operands
    where !(8...64 ~= text.utf8.count && text.utf8.allSatisfy { hexValue($0) != nil }) {
      throw CommandFailure(
        .usage, "\"\(text)\" is not 8 to 64 hexadecimal digits",
        remedy: "`apus device pending` shows the keys.")
    }
    for option in [DeviceOptions.certificate.description, DeviceOptions.name.description]
    where operands.count > 1 && invocation.isFlagged(option) {
      throw CommandFailure(
        .usage, "\(option.flag) works with only one KEY", remedy: "Approve one after the other.")
    }
    return operands.map { $0.lowercased() }
  }

  private func approve(_ key: String, _ directory: DataDirectory) throws {
    let pem = try invocation[DeviceOptions.certificate].map { path in
      try Process.text(of: path, for: DeviceOptions.certificate, invocation)
    }
    let (request, certificate) = try directory.approveEnrolment(
      key, certificatePEM: pem, name: invocation[DeviceOptions.name]?.text,
      tags: invocation.all(DeviceOptions.tag),
      nowSeconds: Process.nowSeconds, days: invocation.value(DeviceOptions.days))
    directory.record(
      .enrolmentApproved, "device \(request.device.text)",
      .text("sha256", certificate.fingerprint.hex))
    Report(
      fields: [
        "device_id": .string(request.device.text), "key": .string(request.key),
        "sha256": .string(certificate.fingerprint.hex), "expires": .integer(certificate.notAfter),
      ],
      text: """
        Approved the device \(request.device.text). It gets its certificate when it asks again.

        """
    ).print(invocation)
  }

  private func reject(_ key: String, _ directory: DataDirectory) throws {
    let request = try directory.rejectEnrolment(key)
    directory.record(
      .enrolmentRejected, "device \(request.device.text)", .text("key", request.key))
    Report(
      fields: ["rejected": .string(request.key)],
      text: "Rejected the request. The device is told when it asks again.\n"
    ).print(invocation)
  }

  private func list(_ request: PendingEnrolments.Request, _ directory: DataDirectory) {
    let state =
      switch request.state {
      case .waiting: "waiting"
      case .approved: "approved"
      case .rejected: "rejected"
      }
    let file = directory.pendingEnrolments.requestFile(request.key)
    Report(
      fields: [
        "key": .string(request.key), "state": .string(state), "name": .string(request.name),
        "tags": .strings(request.tags.map(\.text)),
        "address": .string(request.address), "since": .integer(request.seconds),
        "device_id": .string(request.device.text), "renewal": .bool(request.isRenewal),
        "code": .bool(request.hasCode), "request_file": .string(file),
      ],
      text: """
        \(request.key)
        \(table([
          "state": state, "name": request.name,
          "tags": request.tags.isEmpty ? "-" : request.tags.map(\.text).joined(separator: " "),
          "address": request.address,
          "since": Log.timestamp(request.seconds * 1000), "device": request.device.text,
          "came": request.origin.rawValue,
          "request": file,
        ]))
        """
    ).print(invocation)
  }
}
