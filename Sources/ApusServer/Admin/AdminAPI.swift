import ApusModel
import ApusWeb
import ApusWire

/// Answers what the administration is asked.
///
/// Requests are answered on the web server's threads, which own nothing: facts come from the workers by their inboxes
/// and from the snapshot of what is trusted; changes are made in the data directory, as the commands make them, and the
/// running service takes them up as it takes up any other.
struct AdminAPI: WebHandler {
  let view: ServiceView
  let gate: AdminGate

  // MARK: The head

  func screen(_ head: inout WebRequest) -> WebResponse? {
    do throws(AdminProblem) {
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
    let hasBody =
      !head.values("transfer-encoding").isEmpty
      || head.values("content-length").contains { Int($0) != 0 }
    guard hasBody else { return }
    guard operation.takesBody else {
      throw AdminProblem(.malformed, "\(head.method) of this path takes no content")
    }
    let type = head.values("content-type").first ?? ""
    let essence = type.prefix { $0 != ";" }.lowercased().trimmed
    guard essence == "application/json" else {
      throw AdminProblem(
        .mediaType,
        "the content must be application/json, and says "
          + (type.isEmpty ? "nothing" : "\(type)"))
    }
  }

  // MARK: The answer

  func answer(_ request: WebRequest) -> WebResponse {
    do throws(AdminProblem) {
      return try perform(request)
    } catch {
      return error.response
    }
  }

  private func perform(_ request: WebRequest) throws(AdminProblem) -> WebResponse {
    let (operation, parameters) = try AdminOperation.find(
      method: request.method, segments: request.segments)
    let input = try AdminInput(request, parameters)
    let answer = try answer(operation, input)
    try input.requireAllUsed()
    return answer
  }

  private func answer(
    _ operation: AdminOperation, _ input: AdminInput
  ) throws(AdminProblem) -> WebResponse {
    switch operation {
    case .health: return WebResponse(200, text: "ok\n")
    case .ready:
      guard let problem = view.unreadiness else { return WebResponse(200, text: "ready\n") }
      return WebResponse(503, text: "\(problem)\n")
    case .metrics:
      return WebResponse(
        200, contentType: "text/plain; version=0.0.4; charset=utf-8",
        body: .bytes(AdminMetrics(view).text()))
    case .status: return WebResponse(json: AdminStatus(view).json)
    default: throw AdminProblem(.unavailable, "not there yet")
    }
  }

  // MARK: What cannot be read

  func malformed(_ problem: String) -> WebResponse { AdminProblem(.malformed, problem).response }

  func tooLarge(limitBytes: Int) -> WebResponse {
    AdminProblem(.tooLarge, "a request's content has at most \(limitBytes) bytes").response
  }
}
