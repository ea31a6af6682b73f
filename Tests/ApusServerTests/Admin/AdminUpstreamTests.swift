import ApusCore
import ApusDirectory
import ApusModel
import ApusTLS
import ApusTesting
import ApusTrust
import ApusWire
import Testing

@Suite("The upstream of an app in the administration API")
struct AdminUpstreamTests {
  private let bench: AdminBench
  private let key: String
  private let path = "/v1/apps/\(TestDirectory.topic)"

  init() throws {
    bench = try AdminBench()
    key = try PrivateKey.generateP256().pkcs8PEM
  }

  private func patch(_ upstream: JSONValue) throws -> AdminBench.Answer {
    try bench.ask("PATCH", path, JSONValue.members(["upstream": upstream]).text)
  }

  private func upstream(_ id: UInt32 = 1) throws -> Upstream? {
    try bench.data.trust(generation: 1, allowsES512: false).upstreams[AppID(id)]
  }

  private func listed() throws -> JSONValue? {
    let answer = try bench.ask("GET", "/v1/apps")
    #expect(!answer.text.contains("PRIVATE") && !answer.text.contains("s3cret"))
    return answer.json["apps"]?.array?.first { $0["topic"]?.string == TestDirectory.topic }?[
      "upstream"]
  }

  private var keyMembers: JSONValue {
    .members([
      "service": .string("apple"), "key_pem": .string(key), "key_id": .string("UPSTREAM01"),
      "team": .string("APPLETEAM1"),
    ])
  }

  @Test("A key is set, shown without its secret, and removed by null, with audit lines")
  func keyed() throws {
    #expect(try listed() == nil)
    let answer = try patch(keyMembers)
    #expect(answer.status == 200, "\(answer)")
    let shown = JSONValue.members([
      "service": .string("apple"), "key_id": .string("UPSTREAM01"), "team": .string("APPLETEAM1"),
      "spool": .bool(false),
    ])
    #expect(answer.json["upstream"] == shown)
    #expect(try listed() == shown)
    #expect(
      try upstream()?.credential == .key(pem: key, id: "UPSTREAM01", team: "APPLETEAM1"))
    #expect(try patch(.null).json["upstream"] == .null)
    #expect(try listed() == nil && upstream() == nil)
    #expect(try Files.names(in: "\(bench.data.path)/upstreams").isEmpty)
    let lines = try bench.auditLines()
    #expect(lines.map { $0["event"]?.string } == ["app.changed", "app.changed"])
    #expect(lines.allSatisfy { $0["subject"]?.string == "app \(TestDirectory.topic)" })
  }

  @Test("Every part is set, and parts that may be missing are removed by null")
  func parts() throws {
    let identity = try bench.directory.providerIdentity()
    let certificate = String(decoding: identity.certificateChainPEM, as: UTF8.self)
    let certificateKey = String(decoding: identity.privateKeyPEM, as: UTF8.self)
    let authority = bench.directory.foreignAuthority.certificate.pem
    let answer = try patch(
      .members([
        "service": .string("https://push.example.com"),
        // Both blocks in one text: the key must not get into the file that others may read.
        "certificate_pem": .string(certificate + certificateKey),
        "certificate_key_pem": .string(certificateKey), "topic": .string("com.example.there"),
        "proxy": .string("proxy.example:3128"), "proxy_user": .string("me"),
        "proxy_password": .string("s3cret"), "authority_pem": .string(authority),
        "spool": .bool(true),
      ]))
    #expect(
      answer.json["upstream"]
        == .members([
          "service": .string("https://push.example.com"), "topic": .string("com.example.there"),
          "proxy": .string("proxy.example:3128"), "proxy_user": .string("me"),
          "spool": .bool(true),
        ]), "\(answer)")
    var expected = Upstream(
      service: .other(host: "push.example.com", port: 443),
      credential: .certificate(pem: certificate, keyPEM: certificateKey),
      bundleID: "com.example.there",
      proxy: .init(host: "proxy.example", port: 3128, user: "me", password: "s3cret"),
      authorityPEM: authority, spools: true)
    #expect(try upstream() == expected)
    _ = try listed()
    let removed = try patch(
      .members(["topic": .null, "proxy": .null, "authority_pem": .null, "spool": .bool(false)]))
    #expect(removed.status == 200, "\(removed)")
    (expected.bundleID, expected.proxy, expected.authorityPEM) = (nil, nil, nil)
    expected.spools = false
    #expect(try upstream() == expected)
  }

  @Test("A new app gets its upstream at once")
  func added() throws {
    let body = JSONValue.members([
      "topic": .string("com.example.new"), "team": .string(bench.directory.team.text),
      "upstream": keyMembers,
    ])
    let answer = try bench.ask("POST", "/v1/apps", body.text)
    #expect(answer.status == 201 && answer.json["upstream"]?["service"]?.string == "apple")
    #expect(try bench.data.trust(generation: 1, allowsES512: false).upstreams.count == 1)
    // One without a topic that can name a file, and one whose upstream is incomplete, are not added.
    for topic in ["com.example.authority", "com.example.other.new"] {
      let refused = try bench.ask(
        "POST", "/v1/apps",
        JSONValue.members([
          "topic": .string(topic), "team": .string(bench.directory.team.text),
          "upstream": .members(["service": .string("apple")]),
        ]).text)
      #expect(refused.status == 409, "\(refused)")
      #expect(try !bench.data.records().sections.contains { $0.name == topic })
    }
  }

  @Test(
    "A faulty request gets an exact error, and changes nothing",
    arguments: [
      ("1", 400, "\"upstream\" must be an object"),
      (#"{"surprise":1}"#, 400, "\"upstream.surprise\" is not a parameter of this operation"),
      (#"{"service":"http://a.example"}"#, 400, "write https://"),
      (#"{"service":"https://a.example/x"}"#, 400, "leave out user, path and query"),
      (#"{"key_id":"short"}"#, 400, "\"upstream.key_id\" must be ten letters and digits"),
      (#"{"team":1}"#, 400, "\"upstream.team\" must be ten letters and digits"),
      (#"{"key_pem":1}"#, 400, "\"upstream.key_pem\" must be PEM"),
      (#"{"proxy":"a"}"#, 400, "HOST:PORT"),
      (#"{"proxy_user":"a"}"#, 400, "\"upstream.proxy_user\" needs \"proxy\""),
      (#"{"spool":"on"}"#, 400, "\"upstream.spool\" must be true or false"),
      (#"{"topic":"a\nb"}"#, 400, "\"upstream.topic\" must be a text"),
      (#"{"spool":true}"#, 409, "the app has no upstream yet"),
      (#"{"service":"apple"}"#, 409, "neither a key nor a certificate"),
      (#"{"service":"apple","key_pem":"x"}"#, 409, "needs its id"),
      (
        #"{"service":"apple","key_pem":"x","key_id":"AAAAAAAAAA","team":"AAAAAAAAAA"}"#, 409,
        "no key can be read in the upstream's key"
      ),
      (#"{"service":"apple","certificate_pem":"x"}"#, 409, "changed together"),
    ])
  func mistakes(upstream: String, status: Int, detail: String) throws {
    let before = try Files.readText(bench.data.directoryFile)
    let answer = try bench.ask("PATCH", path, #"{"upstream":\#(upstream)}"#)
    #expect(answer.status == status, "\(answer)")
    #expect(answer.json["detail"]?.string?.contains(detail) == true, "\(answer)")
    #expect(try Files.readText(bench.data.directoryFile) == before)
    #expect(try Files.names(in: "\(bench.data.path)/upstreams").isEmpty)
    #expect(try bench.auditLines().isEmpty)
  }

  @Test("Reading needs no right to change, and changing does")
  func scopes() throws {
    let reader = try bench.token("reader", .read)
    let answer = try bench.ask(
      "PATCH", path, #"{"upstream":null}"#, token: reader, peer: AdminBench.remotePeer)
    #expect(answer.status == 403)
  }
}

extension JSONValue {
  fileprivate var text: String { String(decoding: bytes, as: UTF8.self) }
}
