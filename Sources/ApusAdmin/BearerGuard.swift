import ApusCore
package import ApusWeb
import Synchronization

/// Looks for what stands behind `Bearer` in a request (RFC 6750, section 2.1), and slows down those who guess.
package final class BearerGuard: Sendable {
  package enum Finding<Known: Sendable>: Sendable {
    case known(Known)
    /// Nothing was shown, which says nothing that could be guessed, so it is no attempt.
    case nothing
    /// The answer is to be held back for so long.
    case wrong(holdMilliseconds: Int64)
    /// The address is not heard for so long, whatever it shows.
    case notHeard(seconds: Int64, wasWrong: Bool)
  }

  private let attempts = Mutex(AttemptGuard())
  private let isGuessable: Bool

  /// - Parameter isGuessable: Whether people choose the secrets. Then an address that failed too often is not heard,
  ///   whatever it shows, so that it cannot learn that it was right. Of 256 random bits nobody guesses any: there the
  ///   right one is always accepted, because many share an address and one of them may hold a wrong one.
  package init(isGuessable: Bool) { self.isGuessable = isGuessable }

  /// - Parameter known: What a secret opens; nil for one that opens nothing.
  package func look<Known: Sendable>(
    at request: WebRequest, _ known: (String) -> Known?
  ) -> Finding<Known> {
    let fields = request.values("authorization")
    guard !fields.isEmpty else { return .nothing }
    // The processes of this machine count as one address.
    let address: [UInt8] =
      if case .address(let bytes, _) = request.peer { bytes } else { [127, 0, 0, 1] }
    let prefix = AddressPrefix(address.span)
    // A clock that nobody sets.
    let now = monotonicMilliseconds()
    let shown = fields.count == 1 ? Self.secret(fields[0]) : nil
    // What others at the address got wrong stays counted.
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

  /// The scheme's case does not count.
  private static func secret(_ field: String) -> String? {
    let words = field.split(separator: " ", omittingEmptySubsequences: true)
    guard words.count == 2, words[0].lowercased() == "bearer" else { return nil }
    return String(words[1])
  }

  /// The field that asks for one (RFC 6750, section 3). `error` is empty where none was shown.
  package static func challenge(error: String = "") -> WebField {
    WebField(
      "WWW-Authenticate",
      "Bearer realm=\"apus\"" + (error.isEmpty ? "" : ", error=\"\(error)\""))
  }

  /// In words: that an address is not heard.
  package static func notHeard(_ seconds: Int64) -> (detail: String, field: WebField) {
    (
      "this address has sent too many wrong tokens; try again in \(seconds) s",
      WebField("Retry-After", "\(seconds)")
    )
  }
}
