import ApusCommand
import ApusDirectory
import ApusModel
import ApusWire

/// Notifications rejected as unauthorized or for a known device, as `apus log` shows them. They have no lines in the
/// ledger.
struct LogRefusals {
  let invocation: Invocation

  /// For `--refused`, and for an id without lines in the ledger.
  func query() -> RefusalLog.Query {
    let now = Process.nowSeconds * 1000
    var query = RefusalLog.Query()
    query.id = invocation[LogOptions.id]
    query.topic = invocation[LogOptions.topic]
    query.sinceMilliseconds = invocation[LogOptions.since]?.milliseconds(nowMilliseconds: now)
    query.untilMilliseconds = invocation[LogOptions.until]?.milliseconds(nowMilliseconds: now)
    return query
  }

  func print(_ directory: DataDirectory) throws(CommandFailure) {
    do {
      print(
        try RefusalLog(directory).newest(query(), limit: invocation.value(LogOptions.limit)))
    } catch {
      throw CommandFailure(.configuration, "\(error)")
    }
  }

  func print(_ refusals: [JSONValue]) {
    for line in refusals {
      guard !invocation.isOn(ApusOptions.json) else {
        Output.json(Self.json(line))
        continue
      }
      let reason = "Refused - \(line["reason"]?.string ?? "")"
      let words = ["topic", "id", "token", "actor", "explanation"].compactMap { line[$0]?.string }
      Output.standard(
        ([line["time"]?.string ?? "", reason] + words).joined(separator: "  ") + "\n")
    }
  }

  static func json(_ line: JSONValue) -> JSONValue {
    let state = JSONObject.Member(key: "state", value: .string("Refused"))
    return .object(JSONObject([state] + (line.object?.members ?? [])))
  }

  /// Rejects options that concern accepted notifications.
  func refuseCombinations() throws(CommandFailure) {
    let given =
      invocation.isOn(LogOptions.follow) || invocation.isGiven(LogOptions.uniqueID)
      || invocation.isGiven(LogOptions.token) || invocation.isGiven(LogOptions.device)
      || invocation.isGiven(LogOptions.state) || invocation.isOn(LogOptions.counts)
    guard given else { return }
    throw CommandFailure(
      .usage, "--refused shows notifications that were never accepted",
      remedy: "Combine it only with --id, --topic, --since, --until and --limit.")
  }
}
