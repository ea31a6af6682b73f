import Foundation
import Testing

@Suite("HAProxy in front of a service", .serialized, .timeLimit(.minutes(30)))
struct HAProxyTests {
  /// HAProxy connects from 127.0.0.3, the provider from 127.0.0.2, and the device from 127.0.0.1.
  @Test(
    "A push and a device pass with TLS as it is, and the service knows the clients' addresses",
    arguments: ["send-proxy", "send-proxy-v2"])
  func relayed(send: String) throws {
    let installation = try Installation()
    try installation.start(["--proxy-from", "127.0.0.3"], direct: "+proxy")
    let proxy = try Companion(
      URL(filePath: "/usr/bin/python3"),
      [
        Programs.root.appending(path: "Tests/InteropTests/haproxy.py").path, send,
        "\(installation.providerPort)", "\(installation.courierPort)",
      ], name: "haproxy")
    defer { proxy.stop() }
    let ports = try #require(try proxy.first("ready")["ports"] as? [Int])
    let data = ["--data", installation.directory.path]

    let issued = try Programs.json(
      Programs.run(installation.apus, ["device", "add", "--json"] + data))
    let id = try #require(issued["device_id"] as? String)
    let listener = try Companion(
      installation.apus,
      [
        "listen", "--json", "--to", "localhost:\(ports[1])", "--certificate",
        #require(issued["certificate_file"] as? String), "--key",
        #require(issued["key_file"] as? String),
      ] + data, name: "apus listen")
    defer { listener.stop() }
    let token = try #require(try listener.first("token")["token"] as? String)
    let bearer = try Programs.run(installation.apus, ["token", "make"] + data)
      .trimmingCharacters(in: .whitespacesAndNewlines)
    #expect(try push(installation, ports[0], token, bearer) == "200")
    let shown = try listener.first("notification")
    let payload = shown["payload"] as? [String: [String: String]]
    #expect(payload == ["aps": ["alert": "Relayed"]], "\(shown)")

    let device = try administration(installation, "devices/\(id)")
    #expect(device.contains(#""127.0.0.1:"#) && !device.contains("127.0.0.3"), "\(device)")
    #expect(try push(installation, ports[0], token, bearer + "x") == "403")
    let refused = try Programs.attempt(["log", "--refused"] + data).text
    #expect(refused.contains("127.0.0.2") && !refused.contains("127.0.0.3"), "\(refused)")
    // Commands send no header, so they are not told of these listeners.
    let addresses = try String(
      contentsOf: installation.directory.appending(path: "service.addresses"), encoding: .utf8)
    #expect(addresses.contains("gateway production"), "\(addresses)")
    #expect(!addresses.contains("http2") && !addresses.contains("courier"), "\(addresses)")
    // Without the proxy there is no way in.
    #expect(try push(installation, installation.providerPort, token, bearer) == "000")
  }

  /// Sends a push from 127.0.0.2; the status of its answer, or 000 without one.
  private func push(
    _ installation: Installation, _ port: Int, _ token: String, _ bearer: String
  ) throws -> String {
    try Programs.run(
      URL(filePath: "/bin/sh"),
      [
        "-c", #"curl "$@" || true"#, "curl", "--silent", "--http2", "--max-time", "60",
        "--interface", "127.0.0.2", "--cacert", installation.authority, "--output", "/dev/null",
        "--write-out", "%{http_code}", "--header", "authorization: bearer \(bearer)", "--header",
        "apns-topic: \(Installation.topic)", "--data", #"{"aps":{"alert":"Relayed"}}"#,
        "https://127.0.0.1:\(port)/3/device/\(token)",
      ])
  }

  private func administration(_ installation: Installation, _ path: String) throws -> String {
    try Programs.run(
      URL(filePath: "/usr/bin/env"),
      [
        "curl", "--silent", "--fail", "--max-time", "60", "--unix-socket",
        installation.directory.appending(path: "admin.sock").path, "http://apus/v1/\(path)",
      ])
  }
}
