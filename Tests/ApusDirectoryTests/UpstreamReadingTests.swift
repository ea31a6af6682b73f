import ApusCore
import ApusDirectory
import ApusModel
import ApusTesting
import ApusTrust
import Foundation
import Testing

@Suite("Upstreams of apps, as the data directory has them")
struct UpstreamReadingTests {
  private let bench: UpstreamBench

  init() throws { bench = try UpstreamBench() }

  @Test("An app without the values has none, with and without the folder")
  func none() throws {
    #expect(try bench.data.trust(generation: 1, allowsES512: false).upstreams.isEmpty)
    try bench.write("unused", ".p8")
    #expect(try bench.upstream() == nil)
  }

  @Test("A key with its id and team is the credential, also beside a certificate")
  func key() throws {
    try bench.write(bench.key.pkcs8PEM, ".p8")
    try bench.write("not read", ".crt")
    try bench.set(UpstreamBench.keyValues)
    let expected = Upstream(
      service: .apple,
      credential: .key(
        pem: bench.key.pkcs8PEM, id: UpstreamBench.keyID, team: UpstreamBench.team))
    #expect(try bench.upstream() == expected)
  }

  @Test("Without key id and team, the certificate is; all values are read")
  func certificate() throws {
    try bench.write(bench.certificate, ".crt")
    try bench.write(bench.certificateKey, ".key")
    try bench.write("s3cret word\n", ".proxy-password")
    let authority = bench.directory.foreignAuthority.certificate.pem
    try bench.write(authority, ".authority.crt")
    try bench.set([
      ("upstream", "https://push.example.com:8443"), ("upstream-topic", "com.example.upstream"),
      ("upstream-proxy", "[2001:db8::1]:3128"), ("upstream-proxy-user", "apus"),
      ("upstream-spool", "on"), ("upstream-per-second", "250"),
    ])
    let expected = Upstream(
      service: .other(host: "push.example.com", port: 8443),
      credential: .certificate(pem: bench.certificate, keyPEM: bench.certificateKey),
      bundleID: "com.example.upstream",
      proxy: .init(host: "2001:db8::1", port: 3128, user: "apus", password: "s3cret word"),
      authorityPEM: authority, spools: true, perSecond: 250)
    #expect(try bench.upstream() == expected)
  }

  @Test(
    "The service is Apple's, or a URL of host and port",
    arguments: [
      ("apple", .apple), ("apple-sandbox", .appleSandbox),
      ("https://a.example", .other(host: "a.example", port: 443)),
      ("https://a_b.example:2197", .other(host: "a_b.example", port: 2197)),
      ("https://192.0.2.1:1", .other(host: "192.0.2.1", port: 1)),
      ("https://[2001:db8::1]", .other(host: "2001:db8::1", port: 443)),
      ("https://[::1]:65535", .other(host: "::1", port: 65535)),
    ] as [(String, Upstream.Service)])
  func service(text: String, service: Upstream.Service) throws {
    #expect(try Upstream.Service(text) == service)
    #expect(service.text == text)
  }

  @Test(
    "A text that is no service is refused, with the reason",
    arguments: [
      ("http://a.example", "write https://, not http://"),
      ("Apple", "\"Apple\" is not apple, apple-sandbox or https://HOST[:PORT]"),
      ("a.example", "is not apple"), ("", "is not apple"), ("HTTPS://a.example", "is not apple"),
      ("https://a.example/", "leave out user, path and query"),
      ("https://a.example/3/device", "leave out user, path and query"),
      ("https://a.example?x=1", "leave out user, path and query"),
      ("https://u:s3cret@a.example", "leave out user, path and query"),
      ("https://", "no valid host and port"), ("https://a.example:", "no valid host and port"),
      ("https://a.example:0", "no valid host and port"),
      ("https://a.example:65536", "no valid host and port"),
      ("https://a.example:+1", "no valid host and port"),
      ("https://a..example", "no valid host and port"),
      ("https://-a.example", "no valid host and port"),
      ("https://a b.example", "no valid host and port"),
      ("https://1.2.3", "no valid host and port"),
      ("https://[::1", "no valid host and port"), ("https://[a.example]", "no valid host and port"),
      ("https://[fe80::1%lo]", "no valid host and port"),
      ("https://::1", "no valid host and port"),
    ])
  func badService(text: String, reason: String) throws {
    let error = #expect(throws: DirectoryProblem.self) { try Upstream.Service(text) }
    let description = try #require(error?.description)
    #expect(description.contains(reason), "\(description)")
    #expect(!description.contains("s3cret"))
    try bench.set([("upstream", text)])
    #expect(try bench.problem().contains("[app \(UpstreamBench.topic)]: \(description)"))
  }

  @Test(
    "A proxy may have a scheme and a user",
    arguments: [
      ("proxy.example:3128", .init(host: "proxy.example", port: 3128)),
      ("http://proxy.example:80", .init(host: "proxy.example", port: 80)),
      ("http://me@[::1]:80", .init(host: "::1", port: 80, user: "me")),
    ] as [(String, Upstream.Proxy)])
  func proxy(text: String, proxy: Upstream.Proxy) throws {
    #expect(try Upstream.Proxy(text) == proxy)
  }

  @Test(
    "A faulty proxy is refused, and no password is shown",
    arguments: ["proxy.example", "https://a:1", "u:s3cret@a:1", "@a:1", "a:1/", "u@", " u@a:1"])
  func badProxy(text: String) throws {
    let error = #expect(throws: DirectoryProblem.self) { try Upstream.Proxy(text) }
    #expect(try !#require(error?.description).contains("s3cret"))
  }

  @Test(
    "A faulty value is refused with line, section and remedy",
    arguments: [
      ([("upstream-topic", "a")], "upstream-topic without upstream: add upstream = apple"),
      ([("upstream-keyid", "a")], "unknown value upstream-keyid; those of an upstream are"),
      (
        [("upstream", "apple"), ("upstream-key-id", UpstreamBench.keyID)],
        "upstream-key-id needs upstream-team"
      ),
      (
        [("upstream", "apple"), ("upstream-team", UpstreamBench.team)],
        "upstream-team needs upstream-key-id"
      ),
      (
        [("upstream", "apple"), ("upstream-team", "short"), ("upstream-key-id", "UPSTREAM01")],
        "upstream-team must have 10 letters and digits, not \"short\""
      ),
      (UpstreamBench.keyValues + [("upstream-topic", "a b")], "upstream-topic must be a bundle id"),
      (UpstreamBench.keyValues + [("upstream-spool", "yes")], "must be on or off, not \"yes\""),
      (
        UpstreamBench.keyValues + [("upstream-per-second", "0")],
        "upstream-per-second must be a number from 1 to 1000000, not \"0\""
      ),
      (UpstreamBench.keyValues + [("upstream-proxy", "a")], "must have the form HOST:PORT"),
      (
        UpstreamBench.keyValues + [("upstream-proxy-user", "a")],
        "upstream-proxy-user without upstream-proxy"
      ),
      (
        UpstreamBench.keyValues + [("upstream-proxy", "a:1"), ("upstream-proxy-user", "a:b")],
        "without colons"
      ),
    ] as [([(String, String)], String)])
  func badValue(values: [(String, String)], reason: String) throws {
    try bench.write(bench.key.pkcs8PEM, ".p8")
    try bench.set(values)
    let problem = try bench.problem()
    #expect(problem.contains(reason), "\(problem)")
    #expect(
      problem.hasPrefix("\(bench.data.directoryFile), line ")
        && problem.contains("[app \(UpstreamBench.topic)]: "), "\(problem)")
  }

  @Test("Files that are missing or faulty are errors that name them")
  func badFiles() throws {
    try bench.set(UpstreamBench.keyValues)
    func expect(_ texts: String...) throws {
      let problem = try bench.problem()
      for text in texts + ["[app \(UpstreamBench.topic)]: "] {
        #expect(problem.contains(text), "\(problem)")
      }
    }
    let rsa = try PrivateKey.generateRSA(bits: 2048).pkcs8PEM
    try expect("\(bench.path(".p8")) does not exist", "the provider key UPSTREAM01")
    try bench.write("nonsense", ".p8")
    try expect("no key can be read in \(bench.path(".p8"))")
    try bench.write(rsa, ".p8")
    try expect("\(bench.path(".p8")) is not ECDSA on P-256")
    try bench.set([("upstream", "apple")])
    try expect("neither a key nor a certificate", "--upstream-key-id ID", bench.path(".crt"))
    try bench.write("nonsense", ".crt")
    try expect("\(bench.path(".key")) does not exist")
    try bench.write(rsa, ".key")
    try expect("no certificate can be read in \(bench.path(".crt"))")
    try bench.write(bench.certificate, ".crt")
    try expect("\(bench.path(".key")) is not the key of the first certificate")
    try bench.write("nonsense", ".key")
    try expect("no key can be read in \(bench.path(".key"))")
    try bench.write(bench.certificateKey, ".key")
    try bench.write("", ".authority.crt")
    try expect("no certificate can be read in \(bench.path(".authority.crt"))")
    Files.remove(bench.path(".authority.crt"))
    try bench.set([
      ("upstream", "apple"), ("upstream-proxy", "a:1"), ("upstream-proxy-user", "a"),
    ])
    #expect(try bench.upstream()?.proxy?.password == nil)
    for text in ["", "\n", "a\u{7}b\n", "one\ntwo\n"] {
      try bench.write(text, ".proxy-password")
      try expect("\(bench.path(".proxy-password")) must be a single line")
    }
  }

  @Test("A file that cannot be read is named", .enabled(if: geteuid() != 0))
  func unreadable() throws {
    try bench.write(bench.key.pkcs8PEM, ".p8")
    try bench.set(UpstreamBench.keyValues)
    chmod(bench.path(".p8"), 0)
    let problem = try bench.problem()
    #expect(problem.contains("cannot read \(bench.path(".p8"))"), "\(problem)")
    #expect(problem.contains("the user of the service must be allowed to read it"))
  }

  @Test(
    "A bundle id that cannot name files has no upstream",
    arguments: ["../server/server", ".hidden", "com.example.authority"])
  func badName(topic: String) throws {
    var records = try bench.data.records()
    let team = bench.directory.team.text
    records.sections.append(
      .init(
        kind: "app", name: topic,
        values: [("id", "77"), ("team", team), ("upstream", "apple")]))
    try bench.data.save(records)
    #expect(try bench.problem().contains(topic))
    try bench.data.removeApp(topic)
    #expect(bench.data.serverFiles.exist)
  }

  @Test("A key that is replaced or overwritten in place is noticed and read")
  func changedFiles() throws {
    try bench.data.changeApp(UpstreamBench.topic, upstream: .set(bench.keyChange()))
    let before = bench.data.trustStamps()
    #expect(bench.data.trustStamps() == before)
    let second = try PrivateKey.generateP256().pkcs8PEM
    try bench.write(second, ".p8")
    let replaced = bench.data.trustStamps()
    #expect(replaced != before)
    let third = try PrivateKey.generateP256().pkcs8PEM
    try Data((third + "\n").utf8).write(to: URL(filePath: bench.path(".p8")))
    #expect(bench.data.trustStamps() != replaced)
    #expect(
      try bench.upstream()?.credential
        == .key(pem: third + "\n", id: UpstreamBench.keyID, team: UpstreamBench.team))
  }
}
