import ApusCommand
import ApusDirectory
import ApusModel
import ApusWire

/// The output of `apus log --counts`: the counters of a remote service, of the service that runs in the data directory,
/// or of the store.
struct LogCounts {
  let invocation: Invocation

  /// Prints the counters of the data directory.
  ///
  /// - Parameter topic: Nil for all topics.
  func print(_ log: LedgerLog, of directory: DataDirectory, topic: TopicKey?) throws(CommandFailure)
  {
    let name = topic.map(log.text)
    // If no service can be asked, the counters come from the store.
    if let live = try? ask(AdminRemote(socketOf: directory, invocation)) {
      return show(live, topic: name, isLive: true)
    }
    do {
      let rows =
        if let parts {
          CountersReport.rows(try log.counters(), by: parts, text: log.text)
        } else {
          CountersReport.rows(try log.rejections())
        }
      show(rows, topic: name, isLive: false)
    } catch {
      throw CommandFailure(.configuration, "\(error)")
    }
  }

  /// Prints the counters of a remote service.
  func print(_ remote: AdminRemote) throws(CommandFailure) {
    show(try ask(remote), topic: invocation[LogOptions.topic], isLive: true)
  }

  /// Nil for rejected requests.
  private var parts: CountersReport.Parts? {
    switch invocation.value(LogOptions.by) {
    case .topic: .topic
    case .pushType: .pushType
    case .priority: .priority
    case .reason: nil
    }
  }

  private func ask(_ remote: AdminRemote) throws(CommandFailure) -> [JSONValue] {
    let query = parts.map { [("by", $0.rawValue)] } ?? []
    let said = try remote.counters(query)
    return said[parts == nil ? "refused" : "topics"]?.array ?? []
  }

  // MARK: Output

  private func show(_ rows: [JSONValue], topic: String?, isLive: Bool) {
    let rows = rows.filter { topic == nil || $0["topic"]?.string == topic }
    guard !invocation.isOn(ApusOptions.json) else {
      for row in rows {
        let members = row.object?.members ?? []
        Output.json(
          .object(JSONObject(members + [.init(key: "live", value: .bool(isLive))])))
      }
      return
    }
    if parts == nil {
      Output.standard(
        table(
          rows.map { row in
            (
              key: "\(row["status"]?.text ?? "") \(row["reason"]?.string ?? "")",
              value: row["requests"]?.text ?? ""
            )
          }))
    } else {
      Output.standard(rows.map(text).joined())
    }
    if !rows.isEmpty { Output.standard(isLive ? Self.liveText : Self.storedText) }
  }

  private static let liveText = "Current, from the running service.\n"
  private static let storedText =
    "From the store; if a service runs but could not be asked, up to a second old.\n"

  private func text(_ row: JSONValue) -> String {
    func number(_ name: String) -> String { row[name]?.text ?? "0" }
    var rows = [
      (key: "Accepted", value: number("accepted")), (key: "Ended", value: number("ended")),
      (key: "Pending", value: number("pending")),
    ]
    for state in row["states"]?.object?.members ?? []
    where state.key != DeliveryState.received.label.description {
      rows.append((key: state.key, value: state.value.text))
    }
    let environment = row["environment"]?.string ?? ""
    return "\(row["topic"]?.string ?? ""), \(environment)\(label(row))\n\(table(rows))"
  }

  private func label(_ row: JSONValue) -> String {
    switch parts {
    case .pushType: ", \(row["push_type"]?.string ?? "no push type")"
    case .priority: ", priority \(row["priority"]?.text ?? "")"
    case .topic, nil: ""
    }
  }
}
