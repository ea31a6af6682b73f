import ApusDirectory
import ApusEmbedded
import ApusLoop
import ApusModel
import ApusStore
import ApusWeb
import ApusWire

/// Handles the requests of the administration API.
///
/// Requests are handled on the web server's threads, which own no state: facts come from the workers through their
/// inboxes, and from the trust snapshot. Changes are made in the data directory, as the commands do, and the running
/// service applies them like any other change of the directory.
struct AdminAPI: WebHandler {
  let view: ServiceView
  let gate: AdminGate
  /// Whether it serves plain HTTP on loopback, where it must reject requests caused by other sites.
  var isForLoopback = false

  // MARK: Request head

  func screen(_ head: inout WebRequest) -> WebResponse? {
    do throws(AdminProblem) {
      if isForLoopback, let problem = head.foreignHost ?? head.foreignOrigin(scheme: "http") {
        throw AdminProblem(.forbidden, problem)
      }
      let operation = try AdminOperation.find(method: head.method, segments: head.segments)
        .operation
      guard operation.route.scope != nil else { return nil }
      let caller: AdminCaller
      do throws(AdminGate.Refusal) {
        caller = try gate.caller(of: head)
      } catch {
        return error.response
      }
      if let problem = gate.refuse(caller, operation, of: head) { return problem.response }
      try checkBody(head, operation)
      head.caller = WebCaller(
        name: caller.name, origin: caller.origin, rights: UInt32(caller.scopes.rawValue))
      return nil
    } catch {
      return error.response
    }
  }

  private func checkBody(
    _ head: WebRequest, _ operation: AdminOperation
  ) throws(AdminProblem) {
    guard head.announcesBody else { return }
    guard operation.takesBody else {
      throw AdminProblem(.malformed, "\(head.method) on this path takes no content")
    }
    guard head.mediaType == "application/json" else {
      throw AdminProblem(.mediaType, head.isNotJSON)
    }
  }

  // MARK: Response

  func answer(_ request: WebRequest) -> WebResponse {
    do throws(AdminProblem) {
      return try perform(request)
    } catch {
      return error.response
    }
  }

  /// Answers another node, which has authorized the request.
  func answer(linked request: WebRequest) -> WebResponse {
    if let query = PartQuery(request) { return WebResponse(json: query.answer(view)) }
    guard view.decidingNode == nil else {
      return AdminProblem(.unavailable, "this node has no part 0 any more; try again").response
    }
    return answer(request)
  }

  private func perform(_ request: WebRequest) throws(AdminProblem) -> WebResponse {
    let (operation, parameters) = try AdminOperation.find(
      method: request.method, segments: request.segments)
    if let node = view.decidingNode, !operation.isAboutNode {
      return try node.answer(request, operation)
    }
    let input = try AdminInput(request, parameters)
    return try answer(operation, input)
  }

  private func answer(
    _ operation: AdminOperation, _ input: AdminInput
  ) throws(AdminProblem) -> WebResponse {
    let changes = AdminChanges(view, input)
    let records = AdminRecords(view, input)
    switch operation {
    case .page: return try asset()
    case .asset: return try asset(input.parameter("name", { $0 }, "a name"))
    case .status:
      try input.requireAllUsed()
      return WebResponse(json: AdminStatus(view, scopes: input.scopes).json)
    case .health, .ready, .metrics, .describe, .console, .overview:
      try input.requireAllUsed()
      return facts(operation)
    case .listNodes: return try AdminNodes(view, input).list()
    case .drainNode: return try AdminNodes(view, input).setDraining(true)
    case .resumeNode: return try AdminNodes(view, input).setDraining(false)
    case .history: return try history(input)
    case .listDevices: return try AdminKnownDevices(view, input).list()
    case .device: return try AdminKnownDevices(view, input).one()
    case .listTags: return try changes.listTags()
    case .sendNotification:
      let jobs = AdminJobs(view, input)
      return jobs.isAsked ? try jobs.create() : try AdminTestPush(view, input).send()
    case .listJobs: return try AdminJobs(view, input).list()
    case .job: return try AdminJobs(view, input).one()
    case .jobResults: return try AdminJobs(view, input).results()
    case .cancelJob: return try AdminJobs(view, input).cancel()
    case .listTeams: return try changes.list("team", name: "team", ["name"])
    case .listApps: return try changes.listApps()
    case .listKeys:
      return try changes.list(
        "key", name: "key", ["team", "environments", "topics", "related", "revoked"],
        lists: ["environments", "topics"])
    case .listCertificates: return try changes.listCertificates()
    case .listEnrolments: return try changes.listEnrolments()
    case .listCodes: return try changes.listCodes()
    case .audit: return try records.audit(refusalsAlone: false)
    case .refusals: return try records.audit(refusalsAlone: true)
    case .ledger: return try records.ledger()
    case .counters: return try records.counters()
    case .copyStore: return try copyStore(input)
    case .listWebhooks: return try AdminWebhooks(view, input).list()
    case .listChannels: return try AdminChannels(view, input).list()
    case .channel: return try AdminChannels(view, input).one()
    case .createChannel: return try AdminChannels(view, input).create()
    case .deleteChannel: return try AdminChannels(view, input).delete()
    case .relay: return try AdminRelay(view, input).show()
    case .commandRelay: return try AdminRelay(view, input).command()
    case .testWebhook: return try AdminWebhooks(view, input).test()
    default:
      if let loss = view.identity.loss { throw AdminProblem(.unavailable, loss) }
      // One at a time, because some changes write more than one file.
      return try view.state.changing { () throws(AdminProblem) in
        try change(operation, changes, AdminWebhooks(view, input))
      }
    }
  }

  private func change(
    _ operation: AdminOperation, _ changes: AdminChanges, _ webhooks: AdminWebhooks
  ) throws(AdminProblem) -> WebResponse {
    switch operation {
    case .addTeam: try changes.addTeam()
    case .addApp: try changes.addApp()
    case .changeApp: try changes.changeApp()
    case .removeApp: try changes.removeApp()
    case .addKey: try changes.addKey()
    case .revokeKey: try changes.revokeKey()
    case .revokeCertificate: try changes.revokeCertificate()
    case .rotate: try changes.rotate()
    case .approveEnrolment: try changes.approveEnrolment()
    case .rejectEnrolment: try changes.rejectEnrolment()
    case .labelDevice: try changes.labelDevice()
    case .retireDevice: try changes.retireDevice()
    case .makeCode: try changes.makeCode()
    case .withdrawCode: try changes.withdrawCode()
    case .addWebhook: try webhooks.add()
    case .rotateWebhook: try webhooks.rotate()
    case .removeWebhook: try webhooks.remove()
    default: preconditionFailure("\(operation) changes nothing")
    }
  }

  private func facts(_ operation: AdminOperation) -> WebResponse {
    switch operation {
    case .ready:
      guard let problem = view.unreadiness else {
        let warning = view.warning.map { "warning: \($0)\n" } ?? ""
        return WebResponse(200, text: "ready\n\(warning)")
      }
      return WebResponse(503, text: "\(problem)\n")
    case .metrics:
      return WebResponse(
        200, contentType: "text/plain; version=0.0.4; charset=utf-8",
        body: .bytes(AdminMetrics(view).text()))
    case .console:
      return WebResponse(
        json: .fields(["kind": .string("service"), "version": .string(view.settings.version)]))
    case .overview: return WebResponse(json: AdminOverview(view).json)
    case .describe:
      return WebResponse(
        200, contentType: "application/json", body: .bytes(EmbeddedFile.adminAPI.bytes))
    default: return WebResponse(200, text: "ok\n")
    }
  }

  private func copyStore(_ input: AdminInput) throws(AdminProblem) -> WebResponse {
    try input.requireAllUsed()
    guard !view.service.isEphemeral else {
      throw AdminProblem(.conflict, "the service keeps everything in memory (--ephemeral)")
    }
    do throws(StoreError) {
      return WebResponse(json: .fields(["path": .string(try view.store.makeCheckpoint())]))
    } catch {
      throw AdminProblem(.unavailable, "the store cannot be copied: \(error)")
    }
  }

  private func asset(_ name: String = "index.html") throws(AdminProblem) -> WebResponse {
    guard let answer = view.settings.page?.answer(name) else {
      throw AdminProblem(.notFound, "the console has no file \(name)")
    }
    return answer
  }

  private func history(_ input: AdminInput) throws(AdminProblem) -> WebResponse {
    let now = EventLoop.wallClockMilliseconds()
    let since = try input.integer(
      "since_milliseconds", 0...Int64.max, default: now - 3_600_000)
    let step = try input.integer("step_seconds", 10...86_400, default: 10)
    try input.requireAllUsed()
    let samples = view.history.samples(sinceMilliseconds: since, stepSeconds: step)
    return WebResponse(
      json: .fields([
        "step_seconds": .integer(step), "samples": .array(samples.map(\.json)),
      ]))
  }

  // MARK: Requests that cannot be parsed

  func malformed(_ problem: String) -> WebResponse { AdminProblem(.malformed, problem).response }

  func tooLarge(limitBytes: Int) -> WebResponse {
    AdminProblem(.tooLarge, "the request content may have at most \(limitBytes) bytes").response
  }
}
