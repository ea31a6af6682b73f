import ApusCommand
import ApusCore
import ApusDirectory
import ApusModel
import ApusWire
import Glibc

/// The user who runs a command on the data directory: reads it, changes it, and records changes in the audit log.
///
/// The permissions of the files decide who may change the directory.
struct Operator {
  let invocation: Invocation
  let directory: DataDirectory
  private let audit: AuditLog

  init(_ invocation: Invocation) {
    self.invocation = invocation
    directory = DataDirectory(path: invocation.value(ApusOptions.data))
    audit = AuditLog(path: directory.auditFile)
  }

  /// Runs `body`, and turns its error into a failure of the command.
  func attempt<Value>(_ body: () throws -> Value) throws(CommandFailure) -> Value {
    try attemptAnywhere {
      try directory.requireProvisioned()
      return try body()
    }
  }

  /// The same where there may be no service.
  func attemptAnywhere<Value>(_ body: () throws -> Value) throws(CommandFailure) -> Value {
    do { return try body() } catch let failure as CommandFailure { throw failure } catch {
      throw CommandFailure(.configuration, "\(error)")
    }
  }

  /// Writes an action to the audit log.
  func record(_ event: AuditEvent, _ subject: String) {
    audit.record(event, actor: "uid \(getuid())", subject: subject)
  }

  /// The sections of one kind in `directory.conf`.
  func sections(_ kind: String) throws(CommandFailure) -> [SectionFile.Section] {
    try attempt { try directory.records().sections.filter { $0.kind == kind } }
  }

  /// The only section of its kind, used if none is named.
  func only(
    _ kind: String, for option: Option<String>
  ) throws(CommandFailure) -> SectionFile.Section {
    var failure = invocation.missing(option.description)
    guard directory.isProvisioned else { throw failure }
    let sections = try sections(kind)
    guard sections.count == 1 else {
      let names = sections.map(\.name).joined(separator: ", ")
      failure.problem +=
        sections.isEmpty
        ? ", and \(directory.path) has none" : ", and \(directory.path) has several: \(names)"
      throw failure
    }
    return sections[0]
  }

  /// The device with that id or that name.
  func device(_ text: String) throws(CommandFailure) -> DeviceID {
    if let id = DeviceID(text: text) { return id }
    let labels = try attempt { try LabelRegister(reading: directory) }
    guard let device = labels.index.device(called: text) else {
      throw CommandFailure(
        .configuration, "no device has the id or the name \"\(text)\"",
        remedy: "An id has 16 hexadecimal digits. `apus device list` shows ids and names.")
    }
    return device
  }

  /// When each retired device was retired, Unix seconds.
  func retiredDevices() throws(CommandFailure) -> [DeviceID: Int64] {
    var retired: [DeviceID: Int64] = [:]
    for section in try sections("retired") {
      guard let device = DeviceID(text: section.name) else { continue }
      retired[device] = section["since"].flatMap { Int64($0) } ?? 0
    }
    return retired
  }

  /// The named team, or the only one.
  func team(_ option: Option<String>) throws(CommandFailure) -> ShortID {
    let text: String
    if let given = invocation[option] {
      text = given
    } else {
      text = try only("team", for: option).name
    }
    guard let team = ShortID(text) else {
      throw CommandFailure(.configuration, "\(directory.directoryFile): \(text) is not a team id")
    }
    return team
  }

  /// Prints the sections of one kind as a list of names and values.
  func list(_ kind: String, _ keys: [String]) throws(CommandFailure) {
    let sections = try sections(kind)
    guard invocation.isOn(ApusOptions.json) else {
      let rows = sections.map { section in
        (
          key: section.name,
          value: keys.compactMap { key in section[key].map { "\(key) \($0)" } }
            .joined(separator: ", ")
        )
      }
      return Output.standard(rows.isEmpty ? "None.\n" : table(rows))
    }
    for section in sections {
      let members =
        [JSONObject.Member(key: kind, value: .string(section.name))]
        + keys.compactMap { key in
          section[key].map { JSONObject.Member(key: key, value: .string($0)) }
        }
      Output.json(.object(JSONObject(members)))
    }
  }
}
