import ApusAdmin
import ApusTrust
import ApusWire
import ApusWeb

/// The password for a development service that listens on other addresses than loopback.
package struct DevPassword: Sendable {
  private let digest: [UInt8]
  private let bearers = BearerGuard(isGuessable: true)

  /// Allowed length of a chosen password in bytes.
  package static let lengths = 16...256

  package init(_ password: String) { digest = Self.digest(password) }

  /// 256 random bits.
  package static func make() -> String {
    let bytes = randomBytes(32)
    return "apus_" + String(decoding: Base64URL.encode(bytes.span), as: UTF8.self)
  }

  private static func digest(_ text: String) -> [UInt8] {
    let bytes = Array(text.utf8)
    return SHA256Digest(of: bytes.span).bytes
  }

  /// The response to a request without the right password; nil if it has it.
  func refusal(of request: WebRequest) -> WebResponse? {
    let digest = digest
    let finding = bearers.look(at: request) { shown in
      let shown = Self.digest(shown)
      return constantTimeEquals(shown.span, digest.span) ? true : nil
    }
    switch finding {
    case .known: return nil
    case .nothing:
      return answer(.unauthorized, "a password is required: authorization: Bearer PASSWORD")
    case .wrong(let milliseconds):
      var response = answer(
        .unauthorized, "the password is wrong", BearerGuard.challenge(error: "invalid_token"))
      response.holdMilliseconds = milliseconds
      return response
    case .notHeard(let seconds, _):
      let (detail, field) = BearerGuard.notHeard(seconds)
      return answer(.tooManyAttempts, detail, field)
    }
  }

  private func answer(
    _ code: DevProblem.Code, _ message: String, _ field: WebField = BearerGuard.challenge()
  ) -> WebResponse {
    var problem = DevProblem(code, message)
    problem.headers = [field]
    return problem.response
  }
}
