import ApusCommand
import ApusDirectory
import ApusEnrolment
import ApusModel
import ApusWeb
import ApusWire

/// `apus doctor --device`: names the likely cause why a device gets nothing.
struct DoctorDevice {
  private let invocation: Invocation
  private let service: AdminRemote
  /// Nil for a service elsewhere.
  private let directory: DataDirectory?

  private static let lines = 100

  init(_ invocation: Invocation) throws(CommandFailure) {
    self.invocation = invocation
    if let remote = try AdminRemote(invocation) {
      (service, directory) = (remote, nil)
      return
    }
    let user = Operator(invocation)
    try user.attempt {}
    service = AdminRemote(socketOf: user.directory, invocation)
    directory = user.directory
  }

  func run(_ text: String) throws(CommandFailure) {
    var facts = DeviceFacts(nowMilliseconds: Process.nowSeconds * 1000)
    facts.topic = invocation.isFlagged(ApusOptions.topic) ? invocation[ApusOptions.topic] : nil
    facts.device = try service.askIfKnown("GET", ["devices", text])
    let id = facts.device?["device"]?.string ?? text
    if let id = DeviceID(text: id) { try gather(&facts, id) }
    let diagnosis = DeviceDiagnosis(facts)
    let name = facts.device?["name"]?.string
    let fields = JSONValue.members([
      "device": .string(id), "name": name.map(JSONValue.string),
      "cause": .string(diagnosis.cause.rawValue), "text": .string(diagnosis.text),
      "remedy": diagnosis.remedy.isEmpty ? nil : .string(diagnosis.remedy),
    ])
    let subject = name.map { "\($0) (\(id))" } ?? id
    guard diagnosis.cause == .none else {
      var failure = CommandFailure(
        .failed, "\(subject): \(diagnosis.text)", remedy: diagnosis.remedy)
      failure.report = fields
      throw failure
    }
    if invocation.isOn(ApusOptions.json) {
      Output.json(fields)
    } else {
      Output.standard("\(subject): \(diagnosis.text)\n")
    }
  }

  private func gather(_ facts: inout DeviceFacts, _ device: DeviceID) throws(CommandFailure) {
    facts.lines =
      try service.ask(
        "POST", ["ledger", "query"],
        body: .members(["device": .string(device.text), "limit": .integer(Int64(Self.lines))]))[
        "lines"]?.array ?? []
    facts.refusedRequests = try refusals("request.refused", ["device": device.text])
    let refused = try refusals("device.refused", ["device": device.text])
    // A certificate that the handshake refuses is known by its subject alone.
    let handshakes = try refusals("handshake.refused", [:]).filter {
      $0["subject"]?.string?.lowercased().contains(device.text) == true
    }
    facts.refusedConnections = (refused + handshakes).sorted {
      ($0["time"]?.string ?? "") < ($1["time"]?.string ?? "")
    }
    let ends = try? directory?.knownCertificateEnds(of: device)
    facts.certificateEnds = (ends ?? []).map { $0 * 1000 }
  }

  /// The newest refusals of one kind, oldest first.
  private func refusals(
    _ event: String, _ query: KeyValuePairs<String, String>
  ) throws(CommandFailure) -> [JSONValue] {
    let fields = [WebField("event", event), WebField("limit", "\(Self.lines)")]
    let said = try service.ask(
      "GET", ["refusals"], query: fields + query.map { WebField($0.key, $0.value) })
    return (said["entries"]?.array ?? []).reversed()
  }
}
