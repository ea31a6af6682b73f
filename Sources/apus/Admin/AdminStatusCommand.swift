import ApusCommand
import ApusDirectory
import ApusModel
import ApusWire

/// `apus status`
struct StatusCommand {
  let invocation: Invocation

  init(_ invocation: Invocation) { self.invocation = invocation }

  func run() throws(CommandFailure) {
    let status: JSONValue
    do throws(CommandFailure) { status = try service().ask("GET", ["status"]) } catch {
      throw ofNode(error)
    }
    let isReady = status["ready"]?.bool == true
    if invocation.isOn(ApusOptions.json) {
      Output.json(status)
    } else {
      Output.standard(text(status, isReady))
    }
    guard isReady else {
      var failure = CommandFailure(
        .failed, "the service is not ready: \(status["problem"]?.string ?? "no reason given")")
      // The full JSON was printed already.
      failure.report = .members(["ready": .bool(false)])
      throw failure
    }
  }

  /// A node that stands by without links cannot be asked.
  private func ofNode(_ failure: CommandFailure) -> CommandFailure {
    let directory = DataDirectory(path: invocation.value(ApusOptions.data))
    guard failure.code == .unavailable, directory.isInCluster else { return failure }
    var failure = failure
    failure.remedy =
      "Does `apus serve` run on that data directory? A node that stands by answers only if it has links "
      + "(--link-listen): `apus cluster nodes` shows which one serves."
    return failure
  }

  private func service() throws(CommandFailure) -> AdminRemote {
    if let remote = try AdminRemote(invocation) { return remote }
    let directory = DataDirectory(path: invocation.value(ApusOptions.data))
    do throws(DirectoryProblem) {
      try directory.requireProvisioned()
    } catch {
      throw CommandFailure(.configuration, "\(error)")
    }
    return AdminRemote(socketOf: directory, invocation)
  }

  private func text(_ status: JSONValue, _ isReady: Bool) -> String {
    var rows: [JSONObject.Member] = status.object?.members ?? []
    let listeners = status["listeners"]?.array ?? []
    rows.removeAll { ["service", "listeners"].contains($0.key) }
    let lines = listeners.map { listener in
      (
        key: "\(listener["kind"]?.string ?? ""), \(listener["environment"]?.string ?? "")",
        value: "\(counted(listener["connections"]?.integer ?? 0, "connection")) on "
          + (listener["addresses"]?.array ?? []).compactMap(\.string).joined(separator: "  ")
      )
    }
    return AdminRemote.rows(.object(JSONObject(rows))) + "\n" + table(lines)
  }
}
