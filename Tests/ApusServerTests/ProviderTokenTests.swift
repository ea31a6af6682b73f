import ApusCore
import ApusModel
import ApusTesting
import Testing

/// Establishing a token-based connection to APNs, and tokens of real providers.
@Suite("Provider tokens")
struct ProviderTokenTests {
  let service: TestService
  private var key: ProviderKeyPair { service.directory.key }

  init() throws { service = try Shared.service }

  private func headers(_ authorization: String) throws -> [RawHeader] {
    try service.pushHeaders(to: Shared.absentToken, authorization: authorization)
  }

  private func exchange(_ authorization: String) throws -> RawResponse {
    try service.provider().exchange(headers(authorization), body: TestService.payload)
  }

  private struct Forms {
    var key: ProviderKeyPair
    var now = "\(TestDirectory.nowSeconds)"

    func token(header: String? = nil, claims: String? = nil) throws -> String {
      try key.token(header: header ?? key.header, claims: claims ?? key.claims(issuedAt: now))
    }
  }

  @Test("All token formats of real providers are accepted")
  func tolerances() throws {
    let forms = Forms(key: key)
    let (id, team, now) = (key.id.text, key.team.text, forms.now)
    let der = try key.token(header: key.header, claims: key.claims(issuedAt: now), form: .der)
    let tokens = [
      "bearer \(try key.token())", "Bearer \(try key.token())", "BEARER \(try key.token())",
      "bearer \(der)",
      "bearer \(try forms.token(claims: key.claims(issuedAt: "\"\(now)\"")))",
      "bearer \(try forms.token(claims: key.claims(issuedAt: "\(now).75")))",
      "bearer \(try forms.token(header: #"{ "kid" : "\#(id)", "typ":"JWT", "alg": "ES256" }"#))",
      "bearer \(try forms.token(claims: #"{"iat":\#(now),"kid":"\#(id)","iss":"\#(team)"}"#))",
      "bearer \(try key.token(issuedAt: TestDirectory.nowSeconds - 3500))",
    ]
    for (index, token) in tokens.enumerated() {
      #expect(try exchange(token).status == 200, "form \(index)")
    }
  }

  @Test(
    "A missing token, or anything other than a bearer token, is rejected",
    arguments: [nil, "", "bearer", "bearer ", "Basic dXNlcjpwYXNz", "x"])
  func missing(authorization: String?) throws {
    try withBystanders(service) {
      let provider = try service.provider()
      let headers = try service.pushHeaders(
        to: Shared.absentToken, authorization: authorization)
      expectRefusal(
        try provider.exchange(headers, body: TestService.payload), 403, "MissingProviderToken")
    }
  }

  @Test("A missing token is reported before any other fault of the request")
  func missingFirst() throws {
    let headers: [RawHeader] = [
      RawHeader(":method", "POST"), RawHeader(":scheme", "https"),
      RawHeader(":path", "/3/device/aaaa"),
    ]
    expectRefusal(
      try service.provider().exchange(headers, body: Array("{}".utf8)), 403,
      "MissingProviderToken")
  }

  @Test("An invalid token is rejected")
  func invalid() throws {
    let directory = service.directory
    let forms = Forms(key: key)
    let (id, team, now) = (key.id.text, key.team.text, forms.now)
    let good = try key.token()
    let parts = good.split(separator: ".")
    let otherIssuer = ProviderKeyPair(id: key.id, team: directory.foreignTeam, key: key.key)
    let otherKey = ProviderKeyPair(id: key.id, team: key.team, key: directory.foreignKey.key)
    let tokens = [
      "x", "a.b.c", "\(parts[0]).\(parts[1])", "\(parts[0]).\(parts[1]).", good + ".x",
      "\(parts[0]).\(parts[1]).\(parts[1])", good.replacing(".", with: ".!"),
      try directory.unknownKey.token(), try directory.revokedKey.token(),
      try otherIssuer.token(), try otherKey.token(),
      try forms.token(header: #"{"alg":"none","kid":"\#(id)"}"#),
      try forms.token(header: #"{"alg":"HS256","kid":"\#(id)"}"#),
      try forms.token(header: #"{"alg":"ES512","kid":"\#(id)"}"#),
      try forms.token(header: #"{"kid":"\#(id)"}"#),
      try forms.token(header: #"{"alg":"ES256"}"#),
      try forms.token(header: #"{"alg":"ES256","kid":"\#(id)","crit":["x"]}"#),
      try forms.token(header: "[]"), try forms.token(claims: "{"),
      try forms.token(claims: #"{"iss":"\#(team)"}"#),
      try forms.token(claims: #"{"iat":\#(now)}"#),
      try forms.token(claims: #"{"iss":"\#(team)","iss":"\#(team)","iat":\#(now)}"#),
      try forms.token(claims: key.claims(issuedAt: "null")),
      try forms.token(claims: key.claims(issuedAt: "\(now)000")),
      try key.token(issuedAt: TestDirectory.nowSeconds + 3700),
    ]
    try withBystanders(service) {
      for (index, token) in tokens.enumerated() {
        let response = try exchange("bearer \(token)")
        #expect(response.status == 403, "token \(index): \(response.bodyText)")
        #expect(response.bodyText == #"{"reason":"InvalidProviderToken"}"#, "token \(index)")
        expectRefusalForm(response)
      }
    }
  }

  @Test("A token older than an hour has expired")
  func expired() throws {
    try withBystanders(service) {
      let provider = try service.provider()
      let old = try key.token(issuedAt: TestDirectory.nowSeconds - 3700)
      let response = try provider.exchange(headers("bearer \(old)"), body: TestService.payload)
      expectRefusal(response, 403, "ExpiredProviderToken")
      let fresh = try headers(service.authorization())
      #expect(try provider.exchange(fresh, body: TestService.payload).status == 200)
    }
  }

  @Test(
    "A key of the other environment is reported before the device token is checked",
    arguments: Environment.allCases)
  func environment(environment: Environment) throws {
    let directory = service.directory
    let (good, bad) =
      environment == .production
      ? (directory.productionKey, directory.developmentKey)
      : (directory.developmentKey, directory.productionKey)
    let provider = try service.provider(environment)
    let headers = try service.pushHeaders(
      to: madeUpToken, authorization: "bearer \(bad.token())")
    expectRefusal(
      try provider.exchange(headers, body: TestService.payload), 403, "BadEnvironmentKeyInToken")
    let right = try headers.setting("authorization", "bearer \(good.token())")
    expectRefusal(try provider.exchange(right, body: TestService.payload), 400, "BadDeviceToken")
  }

  @Test("A second token within 20 minutes is rejected, and the first one stays valid")
  func churn() throws {
    try withBystanders(service) {
      let provider = try service.provider()
      let now = TestDirectory.nowSeconds
      let first = try headers("bearer \(key.token(issuedAt: now - 30))")
      #expect(try provider.exchange(first, body: TestService.payload).status == 200)
      let second = try headers("bearer \(key.token(issuedAt: now))")
      expectRefusal(
        try provider.exchange(second, body: TestService.payload), 429,
        "TooManyProviderTokenUpdates")
      #expect(try provider.exchange(first, body: TestService.payload).status == 200)
      // Another signature over the same second is the same token.
      let again = try headers("bearer \(key.token(issuedAt: now - 30))")
      #expect(again != first)
      #expect(try provider.exchange(again, body: TestService.payload).status == 200)
    }
  }

  @Test("A successor of a token that is 20 minutes old is accepted, and the old one no longer")
  func successor() throws {
    let provider = try service.provider()
    let now = TestDirectory.nowSeconds
    let first = try headers("bearer \(key.token(issuedAt: now - 1300))")
    #expect(try provider.exchange(first, body: TestService.payload).status == 200)
    let second = try headers("bearer \(key.token(issuedAt: now))")
    #expect(try provider.exchange(second, body: TestService.payload).status == 200)
    expectRefusal(
      try provider.exchange(first, body: TestService.payload), 429,
      "TooManyProviderTokenUpdates")
  }

  @Test("A key not related to the first one of the connection is rejected")
  func unrelated() throws {
    let directory = service.directory
    let provider = try service.provider()
    let issuedAt = TestDirectory.nowSeconds - 1300
    let first = try headers("bearer \(directory.topicKey.token(issuedAt: issuedAt))")
    #expect(try provider.exchange(first, body: TestService.payload).status == 200)
    for key in [directory.unrelatedKey, directory.key, directory.foreignKey] {
      let other = try headers("bearer \(key.token())")
      expectRefusal(
        try provider.exchange(other, body: TestService.payload), 403, "UnrelatedKeyIdInToken")
    }
    let related = try headers("bearer \(directory.relatedKey.token())")
    #expect(try provider.exchange(related, body: TestService.payload).status == 200)
  }

  @Test("A key is valid only for its topic, and for topics of its team")
  func scope() throws {
    let directory = service.directory
    for key in [directory.unrelatedKey, directory.foreignKey] {
      let response = try exchange("bearer \(key.token())")
      expectRefusal(response, 400, "TopicDisallowed")
    }
  }

  @Test("The stream limit is one until a valid token, then a thousand")
  func streamLimit() throws {
    let provider = try service.provider()
    let refused = try provider.exchange(headers("bearer x"), body: TestService.payload)
    #expect(refused.status == 403)
    #expect(try provider.exchange(headers(service.authorization()), body: []).status == 400)
    #expect(try provider.exchange(headers(service.authorization()), body: []).status == 400)
    try provider.ping()
    let settings = provider.received.filter { $0.kind == 4 && !$0.isAcknowledgement }
    #expect(
      settings.map(\.settingValues) == [
        [1: 4096, 3: 1, 4: 65535, 5: 16384, 6: 8000], [3: 1000],
      ])
    #expect(provider.received.first == settings.first)
  }
}
