import ApusCore
import ApusLoop
import ApusModel
import ApusTrust
import ApusWeb
import Synchronization

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
  private let attempts = Mutex(AttemptGuard())

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
      guard user != .max else { throw Refusal(problem: .init(.unauthorized, "nobody known asks")) }
      return AdminCaller(name: "uid \(user)", origin: "admin socket", scopes: .all)
    case .address(let bytes, _):
      return try caller(of: request, at: AddressPrefix(bytes.span))
    }
  }

  private func caller(
    of request: WebRequest, at prefix: AddressPrefix
  ) throws(Refusal) -> AdminCaller {
    let fields = request.values("authorization")
    // It says nothing that could be guessed, so it is no attempt.
    guard !fields.isEmpty else {
      throw refusal("a token of `apus admin add` is needed: authorization: Bearer TOKEN", "")
    }
    let now = Self.nowMilliseconds
    if case .refuse(let seconds) = attempts.withLock({
      $0.attempt(from: prefix, nowMilliseconds: now)
    }) {
      note(request, "too many attempts")
      throw Refusal(problem: Self.tooMany(seconds))
    }
    let wall = EventLoop.wallClockMilliseconds() / 1000
    guard fields.count == 1, let secret = Self.secret(fields[0]),
      let token = tokens.token(of: secret, nowSeconds: wall)
    else {
      note(request, "unknown token")
      switch attempts.withLock({ $0.failed(from: prefix, nowMilliseconds: now) }) {
      case .answer: throw refusal(Self.unknownToken, "invalid_token")
      case .hold(let milliseconds):
        var refusal = refusal(Self.unknownToken, "invalid_token")
        refusal.holdMilliseconds = milliseconds
        throw refusal
      case .refuse(let seconds): throw Refusal(problem: Self.tooMany(seconds))
      }
    }
    attempts.withLock { $0.succeeded(from: prefix) }
    return AdminCaller(
      name: "token \(token.name)", origin: request.peer.text, scopes: token.scopes.effective)
  }

  private static let unknownToken =
    "the token is unknown, was removed, or its time is over; `apus admin list` shows those there are"

  /// What stands behind `Bearer` (RFC 6750, section 2.1); the scheme's case does not count.
  private static func secret(_ field: String) -> String? {
    let words = field.split(separator: " ", omittingEmptySubsequences: true)
    guard words.count == 2, words[0].lowercased() == "bearer" else { return nil }
    return String(words[1])
  }

  private func refusal(_ detail: String, _ error: String) -> Refusal {
    // RFC 6750, section 3.
    let challenge =
      "Bearer realm=\"apus\"" + (error.isEmpty ? "" : ", error=\"\(error)\"")
    return Refusal(
      problem: AdminProblem(
        .unauthorized, detail, headers: [WebField("WWW-Authenticate", challenge)]))
  }

  private static func tooMany(_ seconds: Int64) -> AdminProblem {
    AdminProblem(
      .tooManyAttempts,
      "this address has shown too many wrong tokens; it is heard again in "
        + "\(seconds) s", headers: [WebField("Retry-After", "\(seconds)")])
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
      "\(caller.name) has the scopes \(caller.scopes.text); this needs \(scope.text)")
  }

  private func note(_ request: WebRequest, _ reason: String) {
    audit.note(
      .administratorRefused, actor: request.peer.text, reason: reason,
      nowMilliseconds: EventLoop.wallClockMilliseconds())
  }

  /// Of a clock that nobody sets.
  private static var nowMilliseconds: Int64 { monotonicMilliseconds() }
}
