import ApusCommand
import ApusCore
import ApusDirectory
import ApusModel
import ApusTrust
import ApusWire

/// `apus device`
struct DeviceCommand {
  let invocation: Invocation
  let user: Operator

  init(_ invocation: Invocation) {
    self.invocation = invocation
    user = Operator(invocation)
  }

  func run() throws(CommandFailure) {
    let (action, operands) = try DeviceAction.read(invocation)
    if let remote = try AdminRemote(invocation) { return try remote.device(action, operands) }
    switch action {
    case .list: try DeviceView(invocation).list(operands.first, nil)
    case .show: try DeviceView(invocation).show(operands[0], nil)
    case .add: try add()
    case .set: try setLabels(operands[0])
    case .retire: for device in operands { try retire(device) }
    case .pending, .approve, .reject: try PendingCommand(invocation).run(action, operands)
    }
  }

  // MARK: A certificate

  private func add() throws(CommandFailure) {
    let edit = try LabelEdit(invocation, mayBeEmpty: true)
    // Before anything is issued. It is checked again when it is set.
    if case .set(let name) = edit.name { try requireFree(name) }
    let name = invocation[DeviceOptions.name]?.text ?? DeviceName.unnamed
    if let device = try RequestCommand(user).device(name: name) {
      _ = try label(device, edit)
      return
    }
    let (identity, device) = try user.attempt {
      try user.directory.issueDevice(
        name: name, rsaBits: invocation[DeviceOptions.rsaBits],
        nowSeconds: Process.nowSeconds, days: invocation.value(DeviceOptions.days))
    }
    user.record(
      .certificateIssued,
      "device \(device.text), certificate \(identity.certificate.fingerprint.hex)")
    let labels = try label(device, edit)
    Report(
      fields: [
        "certificate_file": .string(identity.certificateFile),
        "key_file": .string(identity.keyFile), "device_id": .string(device.text),
        "name": (labels.name?.text).map(JSONValue.string),
        "tags": labels.tags.isEmpty ? nil : .strings(labels.tags.map(\.text)),
        "authority_file": .string(user.directory.clientAuthorityFile),
        "sha256": .string(identity.certificate.fingerprint.hex),
      ],
      text: "Issued a certificate to the device \(device.text).\n"
        + table(
          [
            ("certificate", identity.certificateFile), ("key", identity.keyFile),
            ("authority", user.directory.clientAuthorityFile),
            ("SHA-256", identity.certificate.fingerprint.hex),
          ] + (labels.isEmpty ? [] : [("labels", labels.text)]))
    ).print(invocation)
  }

  private func requireFree(_ name: DeviceName) throws(CommandFailure) {
    let retired = try user.retiredDevices()
    let labels = try user.attempt { try LabelRegister(reading: user.directory) }
    guard let holder = labels.index.device(named: name), retired[holder] == nil else { return }
    throw invocation.failure(
      .configuration, about: DeviceOptions.name,
      "the device \(holder.text) has the name \"\(name.text)\"",
      remedy: "Choose another name. `apus device set \(holder.text) --no-name` frees it.")
  }

  // MARK: Names and tags

  private func setLabels(_ text: String) throws(CommandFailure) {
    let edit = try LabelEdit(invocation)
    let device = try user.device(text)
    let labels = try label(device, edit)
    Report(
      fields: [
        "device": .string(device.text), "name": (labels.name?.text).map(JSONValue.string),
        "tags": .strings(labels.tags.map(\.text)),
      ],
      text: "The device \(device.text) has \(labels.text) now.\n"
    ).print(invocation)
  }

  private func label(
    _ device: DeviceID, _ edit: LabelEdit
  ) throws(CommandFailure) -> DeviceLabels {
    guard !edit.isEmpty else { return DeviceLabels() }
    let retired = try user.retiredDevices()
    let labels = try user.attempt {
      try LabelRegister(user.directory).edit(device, edit) { retired[$0] != nil }
    }
    user.record(.deviceLabelled, "device \(device.text), \(labels.text)")
    return labels
  }

  // MARK: Retirement

  private func retire(_ text: String) throws(CommandFailure) {
    let device = try user.device(text)
    let now = Process.nowSeconds
    try user.attempt { try user.directory.retire(device, nowSeconds: now) }
    user.record(.deviceRetired, "device \(device.text)")
    Report(
      fields: ["device_id": .string(device.text), "retired_since": .integer(now)],
      text: """
        Retired the device \(device.text) in \(user.directory.directoryFile).
        A running service applies this within a second.

        """
    ).print(invocation)
  }
}

extension LabelEdit {
  /// What `--name`, `--no-name`, `--tag` and `--untag` say.
  init(_ invocation: Invocation, mayBeEmpty: Bool = false) throws(CommandFailure) {
    self.init()
    if let name = invocation[DeviceOptions.name] { self.name = .set(name) }
    if invocation.isOn(DeviceOptions.noName) {
      guard name == .keep else {
        throw invocation.failure(
          about: DeviceOptions.noName, "it cannot be combined with --name",
          remedy: "Leave one of them out.")
      }
      name = .remove
    }
    added = invocation.all(DeviceOptions.tag)
    removedKeys = invocation.all(DeviceOptions.untag)
    guard isEmpty, !mayBeEmpty else { return }
    throw CommandFailure(
      .usage, "nothing to change", remedy: "Give --name, --no-name, --tag or --untag.")
  }
}
