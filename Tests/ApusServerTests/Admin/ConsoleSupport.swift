import ApusDevice
import ApusDirectory
import ApusLoop
import ApusModel
import ApusTesting
import ApusTrust
import ApusWeb
import ApusWire
import Foundation
import Testing

@testable import ApusAdmin
@testable import ApusServer

/// A service with both kinds of listeners for a console, and a browser's access to them.
final class ConsoleBench {
  let service: TestService
  private var devices: [PushDevice] = []

  static let script = "import './none.js'\n"

  /// - Parameter parts: Into how many parts the devices are divided; nil: as for all tests.
  init(parts: Int? = nil) throws {
    let page = WebPage(
      [
        WebAsset(
          name: "index.html", contentType: "text/html; charset=utf-8", bytes: Array("<p>".utf8)),
        WebAsset(
          name: "app.js", contentType: "text/javascript; charset=utf-8",
          bytes: Array(Self.script.utf8)),
      ], contentSecurityPolicy: "default-src 'self'")
    service = try TestService(
      nil,
      .init {
        if let parts { $0.parts = parts }
        $0.admin = AdminConfiguration(
          hasSocket: false, addresses: [.loopbackIPv4(port: 0)],
          console: [.loopbackIPv4(port: 0), .anyIPv4(port: 0)], page: page, version: "1.2.3")
      })
  }

  /// Plain HTTP, on loopback.
  var plain: String { service.service.consoleURLs[0] }
  /// The console's own TLS listener.
  var secure: String {
    service.service.consoleURLs[1].replacingOccurrences(of: "0.0.0.0", with: "localhost")
  }

  func token(_ scopes: AdminScopes) throws -> String {
    try service.directory.data.addAdminToken(
      name: "t\(scopes.rawValue)-\(UInt32.random(in: 0 ... .max))", scopes: scopes,
      nowSeconds: TestDirectory.nowSeconds)
  }

  /// A device of this service, using the device library.
  func device() async throws -> (device: PushDevice, token: DeviceToken) {
    try await connect(
      service.directory.data.issueDevice(
        name: "phone", rsaBits: nil, nowSeconds: TestDirectory.nowSeconds
      ).identity)
  }

  func connect(_ identity: IssuedIdentity) async throws -> (device: PushDevice, token: DeviceToken)
  {
    let device = try PushDevice(
      configuration: DeviceConfiguration(
        host: "localhost", port: service.address(.courier).port,
        authorityPEM: service.directory.serviceAuthority.certificate.pem,
        certificatePEM: identity.certificate.pem, keyPEM: identity.key.pkcs8PEM,
        topics: DeviceTopics(enabled: [TestDirectory.topic])))
    try device.start()
    return (device, try await device.token(for: TestDirectory.topic))
  }

  struct Answer {
    var status: Int
    var head: String
    var text: String

    var json: JSONValue {
      let bytes = Array(text.utf8)
      return (try? JSONValue(parsing: bytes.span)) ?? .null
    }
  }

  /// With curl, to either listener.
  func ask(
    _ method: String, _ path: String, _ body: String? = nil, at base: String? = nil,
    token: String? = nil, headers: [String] = []
  ) throws -> Answer {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    var arguments = [
      "curl", "--silent", "--max-time", "60", "--include", "--request", method, "--path-as-is",
      "--cacert", service.directory.data.clientAuthorityFile,
    ]
    for header in headers { arguments += ["--header", header] }
    if let token { arguments += ["--header", "authorization: Bearer \(token)"] }
    if let body {
      arguments += ["--header", "content-type: application/json", "--data-binary", body]
    }
    process.arguments = arguments + [(base ?? plain) + path.dropFirst()]
    let output = Pipe()
    process.standardOutput = output
    try process.run()
    let data = output.fileHandleForReading.readDataToEndOfFile()
    process.waitUntilExit()
    let text = String(decoding: data, as: UTF8.self).replacingOccurrences(of: "\r\n", with: "\n")
    let parts = text.components(separatedBy: "\n\n")
    let status = text.split(separator: " ").dropFirst().first.flatMap { Int($0) }
    return Answer(
      status: try #require(status, "\(text)"), head: parts[0].lowercased(),
      text: parts.dropFirst().joined(separator: "\n\n"))
  }
}
