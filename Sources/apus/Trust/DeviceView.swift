import ApusCommand
import ApusDirectory
import ApusEnrolment
import ApusLog
import ApusModel
import ApusWeb
import ApusWire

/// `apus device list` and `apus device show`: what the running service knows of devices, or the data directory if none
/// runs there.
struct DeviceView {
  private let invocation: Invocation
  private let user: Operator

  private static let pageDevices = 1000
  /// Lines of the ledger for one device.
  private static let recentLines = 10

  init(_ invocation: Invocation) {
    self.invocation = invocation
    user = Operator(invocation)
  }

  private var isJSON: Bool { invocation.isOn(ApusOptions.json) }

  /// The service: the given one, or that of the data directory.
  private func service(_ remote: AdminRemote?) throws(CommandFailure) -> AdminRemote {
    if let remote { return remote }
    try user.attempt {}
    return AdminRemote(socketOf: user.directory, invocation)
  }

  // MARK: list

  func list(_ text: String?, _ remote: AdminRemote?) throws(CommandFailure) {
    let service = try service(remote)
    let tags = invocation.all(DeviceOptions.tag)
    var query = [WebField("limit", "\(Self.pageDevices)")]
    if let text { query.append(WebField("query", text)) }
    query += tags.map { WebField("tag", $0.text) }
    var (next, count): (String?, Int) = (nil, 0)
    repeat {
      let after = next.map { [WebField("after", $0)] } ?? []
      guard let page = try service.askIfRunning("GET", ["devices"], query: query + after) else {
        return try listOffline(text, tags)
      }
      let devices = page["devices"]?.array ?? []
      printList(devices)
      count += devices.count
      next = page["next"]?.string
    } while next != nil
    if count == 0, !isJSON { Output.standard("None.\n") }
  }

  private func printList(_ devices: [JSONValue]) {
    guard !isJSON else { return devices.forEach(Output.json) }
    Output.standard(
      columns(
        devices.map { device in
          [
            device["device"]?.string ?? "", device["name"]?.string ?? "-", Self.tags(device),
            Self.state(device),
          ]
        }))
  }

  private func listOffline(_ text: String?, _ tags: [DeviceTag]) throws(CommandFailure) {
    let labels = try user.attempt { try LabelRegister(reading: user.directory) }.index
    let retired = try user.retiredDevices()
    let text = text?.lowercased() ?? ""
    let known =
      tags.isEmpty ? Set(labels.devices).union(retired.keys) : Set(labels.devices(with: tags))
    let found = known.sorted { $0.rawValue < $1.rawValue }.filter { device in
      text.isEmpty || device.text.hasPrefix(text)
        || labels.labels(of: device).contains(lowercased: text)
    }
    printList(found.map { offline($0, labels, retired) })
    Output.diagnostic(
      "No service runs in \(user.directory.path): only devices with a name or tags, and retired ones, are known, "
        + "and not whether they are connected.\n")
  }

  private func offline(
    _ device: DeviceID, _ labels: LabelIndex, _ retired: [DeviceID: Int64]
  ) -> JSONValue {
    let own = labels.labels(of: device)
    return .members([
      "device": .string(device.text), "name": (own.name?.text).map(JSONValue.string),
      "tags": .strings(own.tags.map(\.text)),
      "retired": retired[device].map { .string(Log.timestamp($0 * 1000)) },
    ])
  }

  private static func tags(_ device: JSONValue) -> String {
    let tags = (device["tags"]?.array ?? []).compactMap(\.string)
    return tags.isEmpty ? "-" : tags.joined(separator: " ")
  }

  private static func state(_ device: JSONValue) -> String {
    if let since = device["retired"]?.string { return "retired since \(since)" }
    guard let isConnected = device["connected"]?.bool else { return "unknown" }
    if isConnected { return "connected" }
    if device["environments"]?.array?.isEmpty ?? true { return "never connected" }
    return device["last_seen"]?.string.map { "offline, last seen \($0)" } ?? "offline"
  }

  // MARK: show

  func show(_ text: String, _ remote: AdminRemote?) throws(CommandFailure) {
    let service = try service(remote)
    guard let device = try service.askIfRunning("GET", ["devices", text]) else {
      return try showOffline(text)
    }
    let said = try service.ask(
      "POST", ["ledger", "query"],
      body: .members([
        "device": device["device"], "limit": .integer(Int64(Self.recentLines)),
      ]))
    let id = (device["device"]?.string).flatMap { DeviceID(text: $0) }
    let ends = remote == nil ? id.map(certificateEnds) ?? [] : []
    print(device, said["lines"]?.array ?? [], ends)
  }

  private func showOffline(_ text: String) throws(CommandFailure) {
    let device = try user.device(text)
    let labels = try user.attempt { try LabelRegister(reading: user.directory) }.index
    var query = LedgerQuery()
    query.device = device
    // There is no ledger if no service has run yet.
    let log = try? LedgerLog(user.directory)
    let lines = try? log?.read(query, limit: Self.recentLines)
    print(
      offline(device, labels, try user.retiredDevices()),
      (lines ?? []).map { record in
        let facts = record.event.facts
        return .members([
          "time": .string(Log.timestamp(record.milliseconds)),
          "state": .string("\(record.event.state.label)"),
          "cause": record.event.causeText.isEmpty ? nil : .string(record.event.causeText),
          "topic": (log?.text(facts.topic)).map(JSONValue.string), "id": .string(facts.id.text),
        ])
      }, certificateEnds(device))
    Output.diagnostic(
      "No service runs in \(user.directory.path): connection, apps and waiting notifications are unknown.\n"
    )
  }

  /// When the certificates of the device end, as far as they were issued here; Unix seconds.
  private func certificateEnds(_ device: DeviceID) -> [Int64] {
    (try? user.directory.knownCertificateEnds(of: device)) ?? []
  }

  private func print(_ device: JSONValue, _ lines: [JSONValue], _ ends: [Int64]) {
    guard !isJSON else {
      var members = device.object?.members ?? []
      members.append(
        .init(
          key: "certificates_end", value: .array(ends.map { .string(Log.timestamp($0 * 1000)) })))
      members.append(.init(key: "recent", value: .array(lines)))
      return Output.json(.object(JSONObject(members)))
    }
    var rows: [(key: String, value: String)] = [
      ("device", device["device"]?.string ?? ""), ("name", device["name"]?.string ?? "-"),
      ("tags", Self.tags(device)), ("state", Self.state(device)),
    ]
    if let stored = device["stored_notifications"]?.integer {
      rows.append(("waiting", "\(counted(stored, "notification")) in the store"))
    }
    if let end = ends.max() {
      rows.append(("certificate", "until \(Log.timestamp(end * 1000))"))
    }
    var text = table(rows)
    for environment in device["environments"]?.array ?? [] { text += Self.text(environment) }
    text += "\nRecent notifications\n"
    text += lines.isEmpty ? "  none\n" : columns(lines.map(Self.row))
    Output.standard(text)
  }

  private static func row(_ line: JSONValue) -> [String] {
    ["time", "state", "topic", "id", "cause"].enumerated().map { index, name in
      (index == 0 ? "  " : "") + (line[name]?.string ?? "")
    }
  }

  private static func text(_ environment: JSONValue) -> String {
    var words: [String] = []
    if environment["connected"]?.bool == true {
      words.append(
        "connected" + (environment["address"]?.string.map { " from \($0)" } ?? "")
          + (environment["power"]?.string.map { ", \($0)" } ?? ""))
      words.append("\(environment["in_flight"]?.integer ?? 0) sent and not acknowledged")
      words.append("\(environment["waiting"]?.integer ?? 0) in its queue")
    } else {
      words.append(environment["last_seen"]?.string.map { "offline since \($0)" } ?? "offline")
    }
    words.append("\(environment["stored_notifications"]?.integer ?? 0) in the store")
    let topics = (environment["topics"]?.array ?? []).map { topic in
      [
        "  " + (topic["topic"]?.string ?? ""), topic["list"]?.string ?? "",
        topic["token"]?.string ?? "",
      ]
    }
    return "\n\(environment["environment"]?.string ?? ""): \(words.joined(separator: ", "))\n"
      + columns(topics)
  }
}
