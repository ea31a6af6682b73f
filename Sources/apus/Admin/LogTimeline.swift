import ApusCommand
import ApusDirectory
import ApusModel
import ApusWire

/// Prints lines of the ledger in the order of time, and between them the requests that were refused for the same
/// device. Notifications that wait are marked.
struct LogTimeline {
  private let invocation: Invocation
  private let refusals: LogRefusals
  /// Refusals that were printed.
  private var printed: Set<String> = []
  /// The audit log is read again from here on, less ``overlapMilliseconds``; nil before the first call.
  private var refusalsSince: Int64?

  /// Lines of several processes may come late, and another machine's clock may differ.
  private static let overlapMilliseconds: Int64 = 60_000

  init(_ invocation: Invocation) {
    self.invocation = invocation
    refusals = LogRefusals(invocation: invocation)
  }

  /// Whether refused requests belong to what was asked for: they have no states and no unique id.
  var hasRefusals: Bool {
    (invocation.isGiven(LogOptions.device) || invocation.isGiven(LogOptions.token))
      && !invocation.isGiven(LogOptions.state) && !invocation.isGiven(LogOptions.uniqueID)
  }

  /// For the refusals since the last call.
  ///
  /// - Parameter token: The first digits, as the audit log has them.
  func query(device: DeviceID?, token: String?) -> RefusalLog.Query {
    var query = refusals.query()
    query.device = device
    query.token = token
    if let refusalsSince { query.sinceMilliseconds = refusalsSince - Self.overlapMilliseconds }
    return query
  }

  /// Returns the number of lines. `lines` and `found` are each in the order of time.
  mutating func print(_ lines: [JSONValue], _ found: [JSONValue]) -> Int {
    let new = found.filter { printed.insert($0.text).inserted }
    let newest = (new.last?["time"]?.string).flatMap(DateTime.milliseconds)
    refusalsSince = max(refusalsSince ?? Process.nowSeconds * 1000, newest ?? 0)
    // Only those of the last minute can come again.
    if printed.count > 2 * found.count + 10_000 { printed = Set(found.map(\.text)) }
    let waiting = Self.waiting(lines)
    var rows: [(time: String, json: JSONValue, columns: [String])] = lines.enumerated().map {
      index, line in
      let isWaiting = waiting.contains(index)
      return (line["time"]?.string ?? "", Self.marked(line, isWaiting), Self.row(line, isWaiting))
    }
    rows += new.map { ($0["time"]?.string ?? "", LogRefusals.json($0), Self.refused($0)) }
    // RFC 3339 times in one format compare correctly as text. What is equal keeps its order.
    let sorted = rows.enumerated().sorted {
      ($0.element.time, $0.offset) < ($1.element.time, $1.offset)
    }.map(\.element)
    let shown = sorted.suffix(invocation.value(LogOptions.limit))
    if invocation.isOn(ApusOptions.json) {
      for row in shown { Output.json(row.json) }
    } else {
      Output.standard(columns(shown.map(\.columns)))
    }
    return shown.count
  }

  /// The indices of the lines after which a notification waits in the store.
  private static func waiting(_ lines: [JSONValue]) -> Set<Int> {
    var last: [String: Int] = [:]
    for (index, line) in lines.enumerated() {
      last["\(line["id"]?.string ?? "") \(line["device"]?.string ?? "")"] = index
    }
    let stored = [
      DeliveryState.storedDeviceOffline, .storedPowerConsiderations, .deferredUpstream,
    ].map { "\($0.label)" }
    return Set(last.values.filter { stored.contains(lines[$0]["state"]?.string ?? "") })
  }

  private static func marked(_ line: JSONValue, _ isWaiting: Bool) -> JSONValue {
    guard isWaiting else { return line }
    let members = line.object?.members ?? []
    return .object(JSONObject(members + [.init(key: "waiting", value: .bool(true))]))
  }

  private static func row(_ line: JSONValue, _ isWaiting: Bool) -> [String] {
    [
      line["time"]?.string ?? "", (isWaiting ? "WAITING: " : "") + (line["state"]?.string ?? ""),
      line["topic"]?.string ?? "", line["id"]?.string ?? "", device(line),
      line["cause"]?.string ?? "",
    ]
  }

  private static func refused(_ line: JSONValue) -> [String] {
    [
      line["time"]?.string ?? "", "Refused - \(line["reason"]?.string ?? "")",
      line["topic"]?.string ?? "", line["id"]?.string ?? "", device(line),
      line["explanation"]?.string ?? "",
    ]
  }

  /// The id, and the name if the device has one.
  private static func device(_ line: JSONValue) -> String {
    [line["device"]?.string, line["device_name"]?.string].compactMap(\.self)
      .joined(separator: " ")
  }
}
