import ApusCommand
import ApusDirectory
import ApusWeb
import ApusWire

/// `apus job`
struct JobCommand {
  private let invocation: Invocation

  init(_ invocation: Invocation) { self.invocation = invocation }

  func run() throws(CommandFailure) {
    let (what, job) = (invocation.operands.first ?? "list", invocation.operands.dropFirst().first)
    if what != "results", invocation.isGiven(GroupOptions.outcome) {
      throw invocation.failure(
        about: GroupOptions.outcome, "it has no effect without results",
        remedy: "Use `apus job results JOB`.")
    }
    let remote = try AdminRemote.any(invocation)
    switch (what, job) {
    case ("list", nil): list(try remote.ask("GET", ["jobs"]), remote)
    case ("show", let job?):
      let found = try remote.ask("GET", ["jobs", job])
      remote.show(found, AdminRemote.rows(found))
    case ("cancel", let job?):
      let found = try remote.ask("POST", ["jobs", job, "cancel"])
      remote.show(found, "Cancelled the job \(job).\n\(AdminRemote.rows(found))")
    case ("results", let job?): try results(of: job, remote)
    case ("show", nil), ("cancel", nil), ("results", nil):
      throw CommandFailure(
        .usage, "the job is missing", remedy: "Use `apus job \(what) JOB`; `apus job` lists jobs.")
    case ("list", _):
      throw CommandFailure(.usage, "list takes no job", remedy: "Use `apus job list`.")
    default:
      throw CommandFailure(
        .usage, "unknown action \"\(what)\"", remedy: "Use list, show, results or cancel.")
    }
  }

  private func list(_ json: JSONValue, _ remote: AdminRemote) {
    let jobs = json["jobs"]?.array ?? []
    if invocation.isOn(ApusOptions.json) {
      for job in jobs { Output.json(job) }
      return
    }
    let rows = jobs.map { job in
      let (all, pending) = (job["devices"]?.integer ?? 0, job["pending"]?.integer ?? 0)
      return (
        key: job["job"]?.string ?? "",
        value: "\(job["created"]?.string ?? "")  \(job["state"]?.string ?? ""), "
          + "\(all - pending) of \(all), \(job["to"]?.string ?? "")"
      )
    }
    Output.standard(rows.isEmpty ? "None.\n" : table(rows))
  }

  /// Page by page.
  private func results(of job: String, _ remote: AdminRemote) throws(CommandFailure) {
    var after: String?
    repeat {
      var query = [WebField("limit", "1000")]
      if let after { query.append(WebField("after", after)) }
      if let outcome = invocation[GroupOptions.outcome] {
        query.append(WebField("outcome", outcome))
      }
      let page = try remote.ask("GET", ["jobs", job, "results"], query: query)
      for row in page["results"]?.array ?? [] {
        if invocation.isOn(ApusOptions.json) {
          Output.json(row)
        } else {
          let words = ["device", "name", "outcome", "explanation"].compactMap { row[$0]?.string }
          Output.standard(words.joined(separator: "  ") + "\n")
        }
      }
      after = page["next"]?.integer.map { "\($0)" }
    } while after != nil
  }
}
