import ApusDirectory
import ApusLoop
import ApusCore
import ApusModel
import ApusTrust
import ApusWeb
import ApusWire

/// Makes provider tokens, and explains them and device tokens.
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
    // Two within 20 minutes on one connection are too many: tokens of the same time are the same.
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
        write(problems: ["it cannot be read: \(error)"], to: &writer)
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
    if token.algorithm == .es512 { problems.append("it says ES512: sign with ES256") }
    if age > Limits.providerTokenSeconds {
      problems.append("it is \(age) s old, and lives \(Limits.providerTokenSeconds) s")
    }
    if age < -Limits.providerTokenAheadSeconds {
      problems.append("it was issued \(-age) s in the future: check the clock of its maker")
    }
    guard let id = ShortID(token.keyID),
      let section = (try? data.records())?.sections.first(where: {
        $0.kind == "key" && $0.name == id.text
      })
    else {
      return problems + ["there is no key \(token.keyID) here"]
    }
    if section["revoked"] == "yes" { problems.append("key \(token.keyID) is revoked") }
    if let team = section["team"], team != token.teamID {
      problems.append("key \(token.keyID) is team \(team)'s, and the token says \(token.teamID)")
    }
    guard let pem = try? Files.readText(data.publicKey(id)),
      let key = try? PublicKey(spkiPEM: pem),
      let verifier = try? ProviderKeyVerifier(publicKey: key, lenient: true)
    else { return problems }
    if !verifier.verifies(token, in: bytes.span) {
      problems.append("the signature is not that of key \(token.keyID)")
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
        "is neither a provider token, which has two full stops, nor a device token, which has "
          + "hexadecimal digits", field: "token")
    }
    let owner = context.book.owner(of: text)
    let trust = try? data.trust(generation: 1, allowsES512: false)
    let claims = DeviceToken(hex: digits.span).flatMap { token in
      trust.flatMap { TokenSealer($0.sealingKeys).open(token) }
    }
    let topic = claims.flatMap { claims in
      trust?.directory.topicText(claims.topic).map { String(decoding: $0, as: UTF8.self) }
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
              ? "this service did not make it"
              : "this service did not issue it; in lenient mode it belongs to \(owner?.device ?? "")"
          ] : [], to: &writer)
    }
  }
}
