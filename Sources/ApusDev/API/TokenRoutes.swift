import ApusDirectory
import ApusLoop
import ApusCore
import ApusModel
import ApusTrust
import ApusWeb
import ApusWire

/// Routes that make provider tokens, and explain provider and device tokens.
struct TokenRoutes {
  let context: DevContext

  private var data: DataDirectory { DataDirectory(path: context.facts.dataDirectory) }

  func answer(
    _ operation: DevOperation, _ input: DevInput
  ) throws(DevProblem) -> WebResponse {
    if operation == .makeProviderToken { return try make(input) }
    let text = try input.read { (reader) throws(InputFault) in
      try reader.required(reader.string("token", maximumBytes: 8192), "token")
    }
    var words = text.split(whereSeparator: \.isWhitespace)
    if words.first?.lowercased() == "authorization:" { words.removeFirst() }
    if words.first?.lowercased() == "bearer" { words.removeFirst() }
    let token = words.joined()
    return token.contains(".") ? check(provider: token) : try check(device: token)
  }

  // MARK: Making

  private func make(_ input: DevInput) throws(DevProblem) -> WebResponse {
    let (keyID, team, issuedAt) = try input.read { (reader) throws(InputFault) in
      (
        try reader.string("keyID", maximumBytes: 10), try reader.string("team", maximumBytes: 64),
        try reader.integer("issuedAtSeconds", 0...95_617_584_000)
      )
    }
    let facts = context.facts
    let now = context.clock.nowMilliseconds / 1000
    // APNs allows one new token per 20 minutes and connection, so tokens within 20 minutes are the same.
    let bucket = now - now % Limits.providerTokenRefreshSeconds
    let issued = issuedAt ?? bucket
    let token: String
    do {
      token = try ProviderToken.sign(
        teamID: team ?? facts.team, keyID: keyID ?? facts.keyID, issuedAt: issued,
        key: PrivateKey(pem: Files.readText(facts.keyFile)))
    } catch {
      throw DevProblem(.invalid, "the token cannot be made: \(error)")
    }
    switch try input.query("format") {
    case nil, "json": break
    case "text": return WebResponse(200, text: token)
    default: throw DevProblem(.invalid, "must be json or text", field: "format")
    }
    return WebResponse { writer in
      writer.text("token", token)
      writer.text("authorization", "bearer \(token)")
      writer.text("keyID", keyID ?? facts.keyID)
      writer.text("team", team ?? facts.team)
      writer.integer("issuedAtSeconds", issued)
      writer.integer("expiresAtSeconds", issued + Limits.providerTokenSeconds)
    }
  }

  // MARK: Checking

  private func check(provider text: String) -> WebResponse {
    let bytes = Array(text.utf8)
    let token: ProviderToken
    do throws(ProviderTokenFault) {
      token = try ProviderToken.parse(bytes.span)
    } catch {
      return WebResponse { writer in
        writer.text("kind", "provider")
        write(problems: ["the token cannot be read: \(error)"], to: &writer)
      }
    }
    let age = context.clock.nowMilliseconds / 1000 - token.issuedAt
    let problems = problems(of: token, bytes, age)
    return WebResponse { writer in
      writer.text("kind", "provider")
      writer.text("keyID", token.keyID)
      writer.text("team", token.teamID)
      writer.integer("issuedAtSeconds", token.issuedAt)
      writer.integer("ageSeconds", age)
      writer.integer("expiresAtSeconds", token.issuedAt + Limits.providerTokenSeconds)
      write(problems: problems, to: &writer)
    }
  }

  private func problems(
    of token: ProviderToken, _ bytes: [UInt8], _ age: Int64
  ) -> [String] {
    var problems: [String] = []
    if token.algorithm == .es512 { problems.append("alg is ES512: sign with ES256") }
    if age > Limits.providerTokenSeconds {
      problems.append(
        "the token is \(age) s old; it expired after \(Limits.providerTokenSeconds) s")
    }
    if age < -Limits.providerTokenAheadSeconds {
      problems.append(
        "the token was issued \(-age) s in the future: check the clock of the machine that made it")
    }
    guard let id = ShortID(token.keyID),
      let section = (try? data.records())?.sections.first(where: {
        $0.kind == "key" && $0.name == id.text
      })
    else {
      return problems + ["this service has no key \(token.keyID)"]
    }
    if section["revoked"] == "yes" { problems.append("the key \(token.keyID) is revoked") }
    if let team = section["team"], team != token.teamID {
      problems.append("the key \(token.keyID) belongs to team \(team), but iss is \(token.teamID)")
    }
    guard let pem = try? Files.readText(data.publicKey(id)),
      let key = try? PublicKey(spkiPEM: pem),
      let verifier = try? ProviderKeyVerifier(publicKey: key, lenient: true)
    else { return problems }
    if !verifier.verifies(token, in: bytes.span) {
      problems.append("the key \(token.keyID) did not make the signature")
    }
    return problems
  }

  private func write(problems: [String], to writer: inout JSONWriter) {
    writer.key("good")
    writer.bool(problems.isEmpty)
    writer.key("problems")
    writer.value(.array(problems.map(JSONValue.string)))
  }

  private func check(device text: String) throws(DevProblem) -> WebResponse {
    let digits = Array(text.utf8)
    guard !digits.isEmpty, digits.allSatisfy({ hexValue($0) != nil }) else {
      throw DevProblem(
        .invalid,
        "is neither a provider token (three parts separated by dots) nor a device token "
          + "(hexadecimal digits)", field: "token")
    }
    let owner = context.book.owner(of: text)
    let trust = context.trust()
    let claims = DeviceToken(hex: digits.span).flatMap { TokenSealer(trust.sealingKeys).open($0) }
    let topic = claims.flatMap { claims in
      trust.directory.topicText(claims.topic).map { String(decoding: $0, as: UTF8.self) }
    }
    return WebResponse { writer in
      writer.text("kind", "device")
      writer.text("device", owner?.device)
      writer.text("deviceID", claims?.device.text)
      writer.text("topic", topic)
      writer.text("environment", claims?.environment.name)
      write(
        problems: claims == nil
          ? [
            owner == nil
              ? "this service did not issue the token"
              : "this service did not issue the token; in lenient mode it belongs to \(owner?.device ?? "")"
          ] : [], to: &writer)
    }
  }
}
