import ApusThread
import ApusCore
package import ApusWeb
import Synchronization

/// Checks the bearer token of a request (RFC 6750, section 2.1), and slows down guessing.
package final class BearerGuard: Sendable {
  package enum Finding<Known: Sendable>: Sendable {
    case known(Known)
    /// The request has no token, so it does not count as an attempt.
    case nothing
    /// The token is wrong, and the response must be delayed.
    case wrong(holdMilliseconds: Int64)
    /// Requests from the address are refused for a time, whatever token they have.
    case notHeard(seconds: Int64, wasWrong: Bool)
  }

  private let attempts = Mutex(AttemptGuard())
  private let isGuessable: Bool

  /// - Parameter isGuessable: Whether people choose the secrets. If so, an address that failed too often is refused
  ///   whatever token it has, so that it cannot learn that a guess was right. Otherwise secrets are 256 random bits:
  ///   the right one is always accepted, because another caller behind the same address may have a wrong one.
  package init(isGuessable: Bool) { self.isGuessable = isGuessable }

  /// - Parameter known: Returns what a secret identifies; nil if it is wrong.
  package func look<Known: Sendable>(
    at request: WebRequest, _ known: (String) -> Known?
  ) -> Finding<Known> {
    let fields = request.values("authorization")
    guard !fields.isEmpty else { return .nothing }
    // All processes of this machine count as one address.
    let address: [UInt8] =
      if case .address(let bytes, _) = request.peer { bytes } else { [127, 0, 0, 1] }
    let prefix = AddressPrefix(address.span)
    // The monotonic clock: setting the wall clock must not change limits.
    let now = monotonicMilliseconds()
    let shown = fields.count == 1 ? Self.secret(fields[0]) : nil
    // Failures of other callers at the address remain counted.
    if !isGuessable, let found = shown.flatMap(known) { return .known(found) }
    if case .refuse(let seconds) = attempts.withLock({
      $0.attempt(from: prefix, nowMilliseconds: now)
    }) {
      return .notHeard(seconds: seconds, wasWrong: false)
    }
    guard isGuessable, let found = shown.flatMap(known) else {
      switch attempts.withLock({ $0.failed(from: prefix, nowMilliseconds: now) }) {
      case .answer: return .wrong(holdMilliseconds: 0)
      case .hold(let milliseconds): return .wrong(holdMilliseconds: milliseconds)
      case .refuse(let seconds): return .notHeard(seconds: seconds, wasWrong: true)
      }
    }
    attempts.withLock { $0.succeeded(from: prefix) }
    return .known(found)
  }

  /// The scheme is case-insensitive.
  private static func secret(_ field: String) -> String? {
    let words = field.split(separator: " ", omittingEmptySubsequences: true)
    guard words.count == 2, words[0].lowercased() == "bearer" else { return nil }
    return String(words[1])
  }

  /// The header field that requests a token (RFC 6750, section 3). `error` is empty if the request had none.
  package static func challenge(error: String = "") -> WebField {
    WebField(
      "WWW-Authenticate",
      "Bearer realm=\"apus\"" + (error.isEmpty ? "" : ", error=\"\(error)\""))
  }

  /// The message and header field for a refused address.
  package static func notHeard(_ seconds: Int64) -> (detail: String, field: WebField) {
    (
      "this address has sent too many wrong tokens; try again in \(seconds) s",
      WebField("Retry-After", "\(seconds)")
    )
  }
}
