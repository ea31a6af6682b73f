import ApusCommand
import ApusDirectory
import ApusModel
import ApusWire

/// What `apus doctor` finds at the service of the data directory itself, besides the path to it.
struct DoctorService {
  let invocation: Invocation
  let directory: DataDirectory

  /// With fewer, few devices can connect.
  private static let fewDescriptors = 4096

  /// Nil unless the service is on this machine.
  init?(_ invocation: Invocation) {
    directory = DataDirectory(path: invocation.value(ApusOptions.data))
    guard directory.isProvisioned else { return nil }
    self.invocation = invocation
  }

  func findings() throws(CommandFailure) -> [DirectoryFinding] {
    let files =
      try DirectoryExamination(directory, nowSeconds: Process.nowSeconds).findings()
      + invocation.serverCertificateFindings()
    // Its own findings are the causes of what the service says.
    guard !files.contains(where: { $0.state == .bad }) else { return files }
    return files + topic() + running()
  }

  /// A service that gets a device token of zeros rejects that before it looks for the app.
  private func topic() -> [DirectoryFinding] {
    guard let topic = try? SendCredentials(invocation).topic(.none),
      let sections = try? directory.records().sections
    else { return [] }
    let apps = sections.filter { $0.kind == "app" }.map(\.name)
    // Some push types add a suffix to the app's id.
    guard !apps.contains(where: { topic == $0 || topic.hasPrefix("\($0).") }) else { return [] }
    return [
      DirectoryFinding(
        "topic", .bad, "the service has no app \(topic); it has \(apps.joined(separator: ", "))",
        "Correct --topic, or add the app: `apus app --add \(topic)`.")
    ]
  }

  private func running() -> [DirectoryFinding] {
    guard let addresses = directory.serviceAddresses else { return [] }
    var findings: [DirectoryFinding] = []
    if let status = try? AdminRemote(socketOf: directory, invocation).ask("GET", ["status"]) {
      findings.append(Self.finding(status))
    }
    if let process = addresses.process, let limit = Process.descriptorLimit(of: process) {
      let text = "the service may have \(limit) connections and files"
      findings.append(
        limit < Self.fewDescriptors
          ? DirectoryFinding(
            "descriptors", .bad, text,
            "Each device needs one. Raise the limit: LimitNOFILE in the unit, or `ulimit -n`.")
          : DirectoryFinding("descriptors", .good, text))
    }
    return findings
  }

  private static func finding(_ status: JSONValue) -> DirectoryFinding {
    let problem = status["problem"]?.string
    if status["ready"]?.bool == true {
      return DirectoryFinding("service", problem == nil ? .good : .bad, problem ?? "ready", again)
    }
    return DirectoryFinding("service", .bad, problem ?? "the service is not ready", again)
  }

  private static let again = "Correct that; the service goes on by itself."
}
