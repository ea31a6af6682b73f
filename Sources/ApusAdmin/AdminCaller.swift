import ApusDirectory
import ApusLog
import ApusLoop
import ApusModel
import ApusTrust
import ApusWeb

/// Who asks the administration for something, and what they may.
struct AdminCaller: Sendable, Hashable {
  /// `uid 1000`, or `token NAME`.
  var name: String
  /// Where they ask from: `admin socket`, or an address.
  var origin: String
  var scopes: AdminScopes
}

/// Finds out who asks.
///
/// Over the UNIX socket the file's mode has let in nobody but its owner and root, so whoever is there may do
/// everything, as they may with the files. Everywhere else a bearer token says who it is, and guessing is slowed down.
final class AdminGate: Sendable {
  private let tokens: AdminTokenFile
  private let audit: AuditLog
  private let bearers = BearerGuard(isGuessable: false)

  init(_ directory: DataDirectory, audit: AuditLog, log: Log) {
    tokens = AdminTokenFile(directory, log)
    self.audit = audit
  }

  /// Why somebody is not let in, and for how long the answer is held back.
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
      // The kernel does not say who it is.
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
      note(request, "unknown token")
      var refusal = refusal(Self.unknownToken, "invalid_token")
      refusal.holdMilliseconds = milliseconds
      throw refusal
    case .notHeard(let seconds, let wasWrong):
      note(request, wasWrong ? "unknown token" : "too many attempts")
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

  /// Whether the scopes cover it; notes who was turned away.
  func refuse(
    _ caller: AdminCaller, _ operation: AdminOperation, of request: WebRequest
  ) -> AdminProblem? {
    guard let scope = operation.route.scope, !caller.scopes.isSuperset(of: scope) else {
      return nil
    }
    audit.note(
      .administratorRefused, actor: "\(caller.name) at \(caller.origin)", reason: "scope missing",
      nowMilliseconds: EventLoop.wallClockMilliseconds()
    ) { [.text("operation", operation.rawValue), .text("scope", scope.text)] }
    return AdminProblem(
      .scopeMissing,
      "\(caller.name) has the scopes \(caller.scopes.text); this operation needs \(scope.text)")
  }

  private func note(_ request: WebRequest, _ reason: String) {
    audit.note(
      .administratorRefused, actor: request.peer.text, reason: reason,
      nowMilliseconds: EventLoop.wallClockMilliseconds())
  }
}
