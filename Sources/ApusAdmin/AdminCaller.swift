import ApusDirectory
import ApusLog
import ApusLoop
import ApusModel
import ApusTrust
import ApusWeb

/// The caller of an administration request, and its scopes.
struct AdminCaller: Sendable, Hashable {
  /// `uid 1000`, or `token NAME`.
  var name: String
  /// `admin socket`, or the address of the caller.
  var origin: String
  var scopes: AdminScopes
}

/// Authenticates and authorizes the callers of the administration API.
///
/// The mode of the UNIX socket admits only its owner and root, who may do everything, as with the files. Everywhere
/// else a bearer token identifies the caller, and repeated wrong tokens are slowed down.
final class AdminGate: Sendable {
  private let tokens: AdminTokenFile
  private let audit: AuditLog
  private let bearers = BearerGuard(isGuessable: false)

  init(_ directory: DataDirectory, audit: AuditLog, log: Log) {
    tokens = AdminTokenFile(directory, log)
    self.audit = audit
  }

  /// Why a caller is refused, and for how long the response is delayed.
  struct Refusal: Error {
    var problem: AdminProblem
    var holdMilliseconds: Int64 = 0

    var response: WebResponse {
      var response = problem.response
      response.holdMilliseconds = holdMilliseconds
      return response
    }
  }

  func caller(of request: WebRequest) throws(Refusal) -> AdminCaller {
    switch request.peer {
    case .local(let user, _):
      // The kernel does not report the user.
      guard user != .max else {
        throw Refusal(problem: .init(.unauthorized, "the caller is unknown"))
      }
      return AdminCaller(name: "uid \(user)", origin: "admin socket", scopes: .all)
    case .address: return try bearer(of: request)
    }
  }

  private func bearer(of request: WebRequest) throws(Refusal) -> AdminCaller {
    let wall = EventLoop.wallClockMilliseconds() / 1000
    let finding = bearers.look(at: request) { tokens.token(of: $0, nowSeconds: wall) }
    switch finding {
    case .known(let token):
      return AdminCaller(
        name: "token \(token.name)", origin: request.peer.text, scopes: token.scopes.effective)
    case .nothing:
      throw refusal("an administration token is required: authorization: Bearer TOKEN", "")
    case .wrong(let milliseconds):
      auditRejection(request, "unknown token")
      var refusal = refusal(Self.unknownToken, "invalid_token")
      refusal.holdMilliseconds = milliseconds
      throw refusal
    case .notHeard(let seconds, let wasWrong):
      auditRejection(request, wasWrong ? "unknown token" : "too many attempts")
      let (detail, field) = BearerGuard.notHeard(seconds)
      throw Refusal(problem: AdminProblem(.tooManyAttempts, detail, headers: [field]))
    }
  }

  private static let unknownToken =
    "the token is unknown, removed or expired; `apus admin list` shows all tokens"

  private func refusal(_ detail: String, _ error: String) -> Refusal {
    Refusal(
      problem: AdminProblem(
        .unauthorized, detail, headers: [BearerGuard.challenge(error: error)]))
  }

  /// A problem if the caller's scopes do not cover the operation, which the audit log then records; nil otherwise.
  func refuse(
    _ caller: AdminCaller, _ operation: AdminOperation, of request: WebRequest
  ) -> AdminProblem? {
    guard let scope = operation.route.scope, !caller.scopes.isSuperset(of: scope) else {
      return nil
    }
    audit.recordRefusal(
      .administratorRefused, actor: "\(caller.name) at \(caller.origin)", reason: "scope missing",
      nowMilliseconds: EventLoop.wallClockMilliseconds()
    ) { [.text("operation", operation.rawValue), .text("scope", scope.text)] }
    return AdminProblem(
      .scopeMissing,
      "\(caller.name) has the scopes \(caller.scopes.text); this operation needs \(scope.text)")
  }

  private func auditRejection(_ request: WebRequest, _ reason: String) {
    audit.recordRefusal(
      .administratorRefused, actor: request.peer.text, reason: reason,
      nowMilliseconds: EventLoop.wallClockMilliseconds())
  }
}
