import ApusCore
import ApusDirectory
import ApusModel
import ApusTesting
import ApusTrust
import Foundation
import Testing

@Suite("Changes of an app's upstream")
struct UpstreamChangeTests {
  private let bench: UpstreamBench
  private var data: DataDirectory { bench.data }
  private let topic = UpstreamBench.topic

  init() throws { bench = try UpstreamBench() }

  private func change(_ body: (inout UpstreamChange) -> Void) throws {
    var change = UpstreamChange()
    body(&change)
    try data.changeApp(topic, upstream: .set(change))
  }

  /// The error of a change, after which everything is as before.
  private func refusal(_ body: (inout UpstreamChange) -> Void) throws -> String {
    let (files, folder) = (try tree(data.path), try bench.files())
    let error = #expect(throws: DirectoryProblem.self) { try change(body) }
    #expect(try tree(data.path).filter { $0.key != "lock" } == files.filter { $0.key != "lock" })
    #expect(try bench.files() == folder)
    return error?.description ?? ""
  }

  @Test("A key is added with its file, readable by its owner alone, and read")
  func key() throws {
    try data.changeApp(topic, retention: 3, upstream: .set(bench.keyChange()))
    #expect(
      try bench.lines() == [
        "upstream = apple", "upstream-key-id = UPSTREAM01", "upstream-team = APPLETEAM1",
      ])
    #expect(try data.records().sections.contains { $0["retain"] == "3" })
    #expect(try bench.files() == [".p8"])
    #expect(try mode(bench.path(".p8")) == 0o600)
    #expect(try mode("\(data.path)/upstreams") == 0o700)
    #expect(
      try bench.upstream()?.credential
        == .key(
          pem: bench.key.pkcs8PEM, id: UpstreamBench.keyID, team: UpstreamBench.team))
  }

  @Test("Single parts are changed, and what is not named stays")
  func parts() throws {
    try data.changeApp(topic, upstream: .set(bench.keyChange()))
    try change {
      $0.proxy = .set(.init(host: "proxy.example", port: 3128, user: "me"))
      $0.proxyPassword = "one"
      $0.bundleID = .set("com.example.there")
      $0.authorityPEM = .set(bench.directory.foreignAuthority.certificate.pem)
      $0.spools = true
      $0.perSecond = .set(40)
    }
    #expect(try bench.files() == [".authority.crt", ".p8", ".proxy-password"])
    #expect(try mode(bench.path(".proxy-password")) == 0o600)
    #expect(try mode(bench.path(".authority.crt")) == 0o644)
    #expect(try bench.upstream()?.proxy?.password == "one")
    try change {
      $0.service = .other(host: "push.example.com", port: 2197)
      $0.proxyPassword = "two"
    }
    var upstream = try #require(try bench.upstream())
    #expect(upstream.service == .other(host: "push.example.com", port: 2197))
    #expect(upstream.proxy?.password == "two" && upstream.spools)
    #expect(upstream.bundleID == "com.example.there" && upstream.authorityPEM != nil)
    #expect(upstream.perSecond == 40)
    // Another proxy does not get the old one's password.
    try change { $0.proxy = .set(.init(host: "other.example", port: 80, user: "me")) }
    upstream = try #require(try bench.upstream())
    #expect(upstream.proxy == .init(host: "other.example", port: 80, user: "me"))
    try change {
      $0.proxy = .remove
      $0.bundleID = .remove
      $0.authorityPEM = .remove
      $0.spools = false
      $0.perSecond = .remove
    }
    upstream = try #require(try bench.upstream())
    #expect(upstream.proxy == nil && upstream.bundleID == nil && upstream.authorityPEM == nil)
    #expect(!upstream.spools && upstream.perSecond == nil)
    #expect(try bench.files() == [".p8"])
    try change {
      $0.keyPEM = bench.directory.key.key.pkcs8PEM
      $0.keyID = ShortID("UPSTREAM02")
    }
    #expect(
      try bench.upstream()?.credential
        == .key(
          pem: bench.directory.key.key.pkcs8PEM, id: "UPSTREAM02", team: UpstreamBench.team))
  }

  @Test("A certificate replaces a key, and a key a certificate; the other's files go")
  func otherCredential() throws {
    try data.changeApp(topic, upstream: .set(bench.keyChange()))
    try data.changeApp(topic, upstream: .set(bench.certificateChange()))
    #expect(try bench.files() == [".crt", ".key"])
    #expect(try mode(bench.path(".key")) == 0o600 && mode(bench.path(".crt")) == 0o644)
    #expect(try bench.lines() == ["upstream = apple-sandbox"])
    #expect(
      try bench.upstream()?.credential
        == .certificate(pem: bench.certificate, keyPEM: bench.certificateKey))
    try data.changeApp(topic, upstream: .set(bench.keyChange()))
    #expect(try bench.files() == [".p8"])
  }

  @Test("The upstream, or the app, is removed with its files; other apps keep theirs")
  func removed() throws {
    let other = TestDirectory.otherTopic
    try data.changeApp(other, upstream: .set(bench.keyChange()))
    try data.changeApp(topic, upstream: .set(bench.keyChange()))
    try change {
      $0.proxy = .set(.init(host: "proxy.example", port: 3128, user: "me"))
      $0.proxyPassword = "one"
    }
    try data.changeApp(topic, upstream: .remove)
    #expect(try bench.upstream() == nil)
    #expect(try Files.names(in: "\(data.path)/upstreams") == ["\(other).p8"])
    // Nothing of a former upstream is used by another one.
    try bench.write(bench.directory.foreignAuthority.certificate.pem, ".authority.crt")
    try data.changeApp(topic, upstream: .set(bench.keyChange()))
    #expect(try bench.upstream()?.authorityPEM == nil)
    // No key names this one.
    try data.addApp("com.example.new", team: bench.directory.team, upstream: bench.keyChange())
    #expect(Files.exists("\(data.path)/upstreams/com.example.new.p8"))
    try data.removeApp("com.example.new")
    #expect(!Files.exists("\(data.path)/upstreams/com.example.new.p8"))
    #expect(try bench.files().contains(".p8"))
  }

  @Test("An upstream that cannot be read is removed all the same")
  func removedUnread() throws {
    try bench.set([("upstream", "nonsense"), ("upstream-what", "nonsense")])
    try data.changeApp(topic, upstream: .remove)
    #expect(try bench.lines().isEmpty && bench.problem().isEmpty)
  }

  @Test("An app whose upstream is refused is not added")
  func notAdded() throws {
    var change = bench.keyChange()
    change.team = nil
    #expect(throws: DirectoryProblem.self) {
      try data.addApp("com.example.new", team: bench.directory.team, upstream: change)
    }
    #expect(try !data.records().sections.contains { $0.name == "com.example.new" })
  }

  @Test("A change that lacks something, or contradicts itself, is refused and changes nothing")
  func refused() throws {
    #expect(try refusal { $0.spools = true }.contains("the app has no upstream yet"))
    #expect(try refusal { $0.service = .apple }.contains("neither a key nor a certificate"))
    let (key, certificate) = (bench.key.pkcs8PEM, bench.certificate)
    let team = ShortID(UpstreamBench.team)
    func refusedKey(_ pem: String, _ id: String?, _ team: ShortID?) throws -> String {
      try refusal {
        $0.service = .apple
        ($0.keyPEM, $0.keyID, $0.team) = (pem, id.flatMap(ShortID.init), team)
      }
    }
    #expect(try refusedKey(key, nil, team).contains("needs its id"))
    #expect(try refusedKey(key, UpstreamBench.keyID, nil).contains("needs the id of its team"))
    #expect(try refusedKey("x", UpstreamBench.keyID, team).contains("no key can be read in"))
    let rsa = try PrivateKey.generateRSA(bits: 2048).pkcs8PEM
    #expect(try refusedKey(rsa, UpstreamBench.keyID, team).contains("not ECDSA on P-256"))
    try data.changeApp(topic, upstream: .set(bench.keyChange()))
    #expect(try refusal { $0.certificatePEM = certificate }.contains("changed together"))
    #expect(try refusal { $0.keyPEM = key }.contains("needs its id"))
    #expect(try refusal { $0.proxyPassword = "x" }.contains("needs a proxy with a user"))
    #expect(try refusal { $0.bundleID = .set("a\nb") }.contains("must be a bundle id"))
    #expect(try refusal { $0.authorityPEM = .set("x") }.contains("the upstream's authority"))
    #expect(
      try refusal { ($0.certificatePEM, $0.certificateKeyPEM) = (certificate, key) }
        .contains("is not the key of the first certificate"))
    #expect(
      try refusal { ($0.keyID, $0.certificatePEM) = (ShortID("UPSTREAM02"), certificate) }
        .contains("not both"))
  }

  @Test("If the record cannot be changed, the files are as they were")
  func undone() throws {
    try data.changeApp(topic, upstream: .set(bench.keyChange()))
    try Files.write("nonsense", to: data.sealingFile, isPrivate: true)
    let text = try refusal {
      $0.keyPEM = bench.directory.key.key.pkcs8PEM
      $0.keyID = ShortID("UPSTREAM02")
      $0.authorityPEM = .set(bench.certificate)
    }
    #expect(text.contains("nothing was changed"))
  }

  @Test("A backup has the files, and a restore brings them back with their modes")
  func backup() throws {
    let temporary = TemporaryDirectory()
    try data.changeApp(topic, upstream: .set(bench.keyChange()))
    try change {
      $0.proxy = .set(.init(host: "proxy.example", port: 3128, user: "me"))
      $0.proxyPassword = "one"
      $0.authorityPEM = .set(bench.certificate)
    }
    let upstream = try bench.upstream()
    try data.backUp(to: "\(temporary.path)/backup")
    try data.changeApp(topic, upstream: .set(bench.certificateChange()))
    _ = try data.restore("\(temporary.path)/backup")
    #expect(try bench.upstream() == upstream)
    #expect(try bench.files() == [".authority.crt", ".p8", ".proxy-password"])
    #expect(try mode(bench.path(".p8")) == 0o600)
    #expect(try mode(bench.path(".proxy-password")) == 0o600)
    #expect(try mode(bench.path(".authority.crt")) == 0o644)
  }

  @Test("The examination reports how long certificates last, and secrets that others can read")
  func examination() throws {
    func findings(afterDays days: Int64) -> [DirectoryFinding] {
      DirectoryExamination(data, nowSeconds: TestDirectory.nowSeconds + days * 86_400).findings()
    }
    func upstream(_ days: Int64) -> DirectoryFinding? {
      findings(afterDays: days).first { $0.check == "upstream" }
    }
    try data.changeApp(topic, upstream: .set(bench.keyChange()))
    #expect(upstream(0) == nil)
    try change {
      $0.certificatePEM = bench.certificate
      $0.certificateKeyPEM = bench.certificateKey
      $0.proxy = .set(.init(host: "proxy.example", port: 3128, user: "me"))
      $0.proxyPassword = "one"
    }
    #expect(upstream(-40)?.state == .good)
    #expect(upstream(0)?.state == .notable)
    let expired = try #require(upstream(2))
    #expect(expired.state == .bad && expired.text.contains(topic))
    #expect(expired.remedy.contains("--upstream-certificate FILE"))
    let entry = try #require(try data.namedCertificates().last?.entry)
    #expect(entry.kind == .upstream && entry.name == topic)
    for suffix in [".key", ".proxy-password"] {
      chmod(bench.path(suffix), 0o644)
      let modes = try #require(findings(afterDays: 0).first { $0.check == "modes" })
      #expect(modes.state == .bad && modes.text.contains(bench.path(suffix)), "\(modes)")
      chmod(bench.path(suffix), 0o600)
    }
    #expect(findings(afterDays: 0).first { $0.check == "modes" }?.state == .good)
  }
}
