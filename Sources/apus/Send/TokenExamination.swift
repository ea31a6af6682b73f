import ApusCommand
import ApusLog
import ApusModel
import ApusTrust
import ApusWire

/// The contents of a provider token, and why a service would reject it. The signature is never shown.
///
/// Source of the rules: Establishing a token-based connection to APNs.
struct TokenExamination {
  struct Problem {
    var text: String
    var remedy: String
  }

  private(set) var problems: [Problem] = []
  /// Names and values for text output, and for JSON.
  private var rows: [(key: String, value: String)] = []
  private let bytes: [UInt8]
  private let now: Int64
  private var token: ProviderToken?

  var keyID: String? { token?.keyID }

  /// - Parameter text: The token; a surrounding header name or `bearer` is removed.
  init(_ text: String, nowSeconds: Int64) {
    now = nowSeconds
    var words = text.split(whereSeparator: \.isWhitespace)
    if words.first?.lowercased() == "authorization:" { words.removeFirst() }
    if words.first?.lowercased() == "bearer" { words.removeFirst() }
    bytes = Array(words.joined(separator: " ").utf8)
    showParts()
    do throws(ProviderTokenFault) {
      let token = try ProviderToken.parse(bytes.span)
      self.token = token
      examine(token)
    } catch {
      problems.append(Self.problem(error))
    }
  }

  // MARK: Parts

  private mutating func showParts() {
    let parts = bytes.split(separator: 0x2e, omittingEmptySubsequences: false)
    for (name, part) in zip(["header", "claims"], parts) {
      let part = Array(part)
      guard let decoded = Base64URL.decode(part.span) else { continue }
      let text = String(decoding: decoded, as: UTF8.self)
      if JSONValue(text: text) != nil { rows.append((name, NotificationCard.harmless(text))) }
    }
  }

  private mutating func examine(_ token: ProviderToken) {
    rows.append(("key id", token.keyID))
    rows.append(("team", token.teamID))
    let isDER = token.signature.count != 64
    rows.append(
      (
        "signature",
        "\(token.signature.count) bytes\(isDER ? ", as DER, which services also accept" : "")"
      ))
    if token.algorithm == .es512 {
      add("alg in the header is ES512", "Sign with ES256: SHA-256 and a P-256 key.")
    }
    if token.teamID.utf8.count != 10 {
      add(
        "iss is \"\(token.teamID)\", but a team id has 10 letters and digits",
        "Copy the id from the membership page of the developer account.")
    }
    examineTime(token.issuedAt)
  }

  private mutating func examineTime(_ issuedAt: Int64) {
    guard issuedAt < 95_617_584_000 else {
      return add(
        "iat is \(issuedAt), thousands of years in the future; it is probably in milliseconds",
        "Give whole seconds since 1970.")
    }
    let age = now - issuedAt
    let words =
      age >= 0 ? "\(Self.span(age)) ago" : "\(Self.span(-age)) ahead of this machine's clock"
    rows.append(("issued at", "\(Log.timestamp(issuedAt * 1000)), \(words)"))
    switch age {
    case ..<(-Limits.providerTokenAheadSeconds):
      add(
        "iat is more than \(Limits.providerTokenAheadSeconds) s in the future, which is rejected with "
          + "\(Reason.invalidProviderToken.text)", "Correct the clock of the machine that made it.")
    case ..<0:
      rows.append(("remark", "one of the two clocks is wrong by at least \(Self.span(-age))"))
    case ...Limits.providerTokenRefreshSeconds:
      let wait = Limits.providerTokenRefreshSeconds - age
      rows.append(("good for", Self.span(Limits.providerTokenSeconds - age)))
      rows.append(
        (
          "remark",
          "a new token within \(Self.span(wait)) on the same connection is answered with 429 "
            + "\(Reason.tooManyProviderTokenUpdates.text)"
        ))
    case ...Limits.providerTokenSeconds:
      rows.append(("good for", Self.span(Limits.providerTokenSeconds - age)))
    default:
      add(
        "the token is older than an hour, which is rejected with "
          + "\(Reason.expiredProviderToken.text)",
        "Make a new one every 20 to 60 minutes. If it is new, the clock of the machine that made it is behind."
      )
    }
  }

  // MARK: Keys

  mutating func verify(with key: PublicKey, named name: String) {
    guard let token else { return }
    do throws(TrustFault) {
      let verifier = try ProviderKeyVerifier(publicKey: key, lenient: true)
      if verifier.verifies(token, in: bytes.span) {
        rows.append(("verified", "signed by \(name)"))
      } else {
        add(
          "\(name) did not make the signature",
          "Another key than kid names signed the token, or header or claims were changed after signing."
        )
      }
    } catch {
      add("\(name) cannot verify it: \(error)", "Give a P-256 key in PEM form.")
    }
  }

  mutating func compare(keyID: String?, teamID: String?) {
    guard let token else { return }
    if let keyID, keyID != token.keyID {
      add("kid is \(token.keyID), not \(keyID)", "Name the signing key in the header.")
    }
    if let teamID, teamID != token.teamID {
      add("iss is \(token.teamID), not \(teamID)", "Name the key's team in the claims.")
    }
  }

  private mutating func add(_ text: String, _ remedy: String) {
    problems.append(Problem(text: text, remedy: remedy))
  }

  // MARK: Text

  private static func problem(_ fault: ProviderTokenFault) -> Problem {
    switch fault {
    case .tooLong:
      Problem(
        text: "it has more than \(Limits.providerTokenBytes) bytes",
        remedy: "A provider token has fewer than 300; this is probably something else.")
    case .segments:
      Problem(
        text: "it does not have three parts separated by dots",
        remedy: "A JWT is header.claims.signature; was it cut off when it was copied?")
    case .base64(let segment):
      Problem(
        text: "the \(word(segment)) is not base64url",
        remedy: "Encode with - and _ instead of + and /, and copy all of it.")
    case .json(let segment, _):
      Problem(text: "the \(word(segment)) is not a JSON object", remedy: "Encode a JSON object.")
    case .duplicate(let name):
      Problem(text: "\(name) is given twice", remedy: "Write it once.")
    case .algorithm:
      Problem(
        text: "alg in the header is not ES256", remedy: "Sign with ES256 and set alg in the header."
      )
    case .critical:
      Problem(text: "the header requires an extension (crit)", remedy: "Leave crit out.")
    case .keyID:
      Problem(
        text: "kid in the header is missing, or not 10 letters and digits",
        remedy: "Put the key id there: the part of the .p8 file's name after AuthKey_.")
    case .teamID:
      Problem(
        text: "iss in the claims is missing, or not letters and digits",
        remedy: "Put the team id of 10 characters there, not the bundle id.")
    case .issuedAt:
      Problem(
        text: "iat in the claims is missing, or not a time",
        remedy: "Give whole seconds since 1970.")
    }
  }

  private static func word(_ segment: ProviderTokenFault.Segment) -> String {
    switch segment {
    case .header: "header"
    case .claims: "claims part"
    case .signature: "signature"
    }
  }

  static func span(_ seconds: Int64) -> String {
    if seconds < 120 { return "\(seconds) s" }
    if seconds < 7200 { return "\(seconds / 60) min" }
    return seconds < 172_800 ? "\(seconds / 3600) h" : "\(seconds / 86_400) days"
  }

  var text: String { rows.isEmpty ? "" : table(rows) }

  var json: JSONValue {
    let members = rows.map { row in
      JSONObject.Member(
        key: String(row.key.map { $0 == " " ? "_" : $0 }), value: .string(row.value))
    }
    let problems = problems.map { problem in
      JSONValue.members(["problem": .string(problem.text), "remedy": .string(problem.remedy)])
    }
    return .object(
      JSONObject(
        [JSONObject.Member(key: "good", value: .bool(problems.isEmpty))] + members
          + [JSONObject.Member(key: "problems", value: .array(problems))]))
  }
}
