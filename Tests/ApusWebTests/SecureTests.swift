import Foundation
import Testing

@testable import ApusWeb

@Suite("TLS")
struct SecureTests {
  /// A self-signed certificate for localhost, made by OpenSSL, and its file.
  private func identity() throws -> (WebIdentity, file: String, remove: () -> Void) {
    let folder = FileManager.default.temporaryDirectory.appending(path: "tls-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    let (key, certificate) = (folder.appending(path: "k").path, folder.appending(path: "c").path)
    let openssl = Process()
    openssl.executableURL = URL(filePath: "/usr/bin/openssl")
    openssl.arguments = [
      "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
      "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key,
      "-out", certificate,
    ]
    openssl.standardError = FileHandle.nullDevice
    try openssl.run()
    openssl.waitUntilExit()
    let identity = WebIdentity(
      certificatePEM: Array(try Data(contentsOf: URL(filePath: certificate))),
      keyPEM: Array(try Data(contentsOf: URL(filePath: key))))
    return (identity, certificate, { try? FileManager.default.removeItem(at: folder) })
  }

  private func call(_ server: WebServer, _ authority: String, host: String = "localhost") throws
    -> String
  {
    let port = try #require(server.port)
    var call = WebCall(
      .tls(host: host, port: port, authorityFile: authority), "POST", ["a", "b/c"])
    call.query = [WebField("x", "1&2")]
    call.body = Array("{}".utf8)
    let answer = try call.perform()
    return "\(answer.status) \(String(decoding: answer.body, as: UTF8.self))"
  }

  @Test("A certificate is replaced while the server runs; an unusable one is rejected")
  func replaced() throws {
    let (first, firstFile, removeFirst) = try identity()
    let (second, secondFile, removeSecond) = try identity()
    defer {
      removeFirst()
      removeSecond()
    }
    let server = try TestServer { configuration in
      configuration.endpoint = .tcp(host: "127.0.0.1", port: 0)
      configuration.identity = first
    }
    let echo = "200 POST a|b/c?x=1&2 2 somebody\n"
    #expect(try call(server.server, firstFile) == echo)
    #expect(throws: WebCall.Fault.self) { try call(server.server, secondFile) }
    // A key of another certificate, then none at all.
    let mixed = WebIdentity(certificatePEM: first.certificatePEM, keyPEM: second.keyPEM)
    let nothing = WebIdentity(certificatePEM: [0x78], keyPEM: [0x79])
    for bad in [mixed, nothing] {
      #expect(throws: WebError.self) { try server.server.replace(bad) }
      #expect(try call(server.server, firstFile) == echo)
    }
    try server.server.replace(second)
    // Connections from before the change may still be accepted by the older daemon.
    var isRenewed = false
    for _ in 0..<100 where !isRenewed { isRenewed = (try? call(server.server, secondFile)) == echo }
    #expect(isRenewed)
    #expect(throws: WebCall.Fault.self) { try call(server.server, firstFile) }
  }

  @Test("A caller accepts no certificate for another host")
  func otherHost() throws {
    let (identity, file, remove) = try identity()
    defer { remove() }
    let server = try TestServer { configuration in
      configuration.endpoint = .tcp(host: "127.0.0.1", port: 0)
      configuration.identity = identity
    }
    #expect(try call(server.server, file, host: "127.0.0.1").hasPrefix("200 "))
    #expect(throws: WebCall.Fault.self) { try call(server.server, file, host: "127.0.0.2") }
  }

  @Test("A caller on a UNIX socket gets the same answers, and an error if nothing listens")
  func unix() throws {
    let server = try TestServer()
    var call = WebCall(.unix(path: server.path), "GET", ["a"])
    call.headers = [WebField("x-a", "b")]
    #expect(try call.perform().status == 200)
    server.server.stop()
    let fault = #expect(throws: WebCall.Fault.self) { try call.perform() }
    #expect(fault?.description == "nothing answers at \(server.path)")
  }

  @Test(
    "Reserved characters in a URL are escaped",
    arguments: [("a-._~Z9", "a-._~Z9"), ("a/b?c&d", "a%2Fb%3Fc%26d"), ("ä %", "%C3%A4%20%25")])
  func escapes(text: String, escaped: String) {
    #expect(WebCall.escaped(text) == escaped)
    #expect(WebRequest.decoded(escaped) == text)
  }
}
