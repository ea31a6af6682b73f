import Foundation
import Testing

/// A variable names the file of authorities that OpenSSL uses as the system's (SSL_CTX_set_default_verify_paths(3)).
@Suite("With --authority system the system's authorities are trusted", .timeLimit(.minutes(30)))
struct SystemAuthorityTests {
  private let installation: Installation

  init() throws {
    installation = try Installation()
    try installation.start()
  }

  private func variables(_ file: String) -> [String: String] {
    ["SSL_CERT_FILE": file, "SSL_CERT_DIR": "/nonexistent"]
  }

  @Test("apus feedback")
  func feedback() throws {
    let certificate = try installation.providerCertificate()
    func feedback(_ file: String) throws -> Data {
      try Programs.bytes(
        installation.apus,
        [
          "feedback", "--to", "localhost:\(installation.feedbackPort)", "--authority", "system",
          "--certificate", certificate,
        ], environment: variables(file))
    }
    #expect(try feedback(installation.authority).isEmpty)
    let trouble = #expect(throws: Trouble.self) { try feedback("/dev/null") }
    #expect(trouble?.description.contains("ended with 3") == true)
  }

  @Test("apus listen, which also enrolls that way")
  func listen() throws {
    let listener = try Companion(
      installation.apus, listen("device.pem"), name: "apus listen",
      environment: variables(installation.authority))
    #expect(try listener.first("token")["token"] is String)
    let arguments = try listen("other.pem")
    let trouble = #expect(throws: Trouble.self) {
      try Programs.bytes(installation.apus, arguments, environment: variables("/dev/null"))
    }
    #expect(trouble?.description.contains("ended with 3") == true)
  }

  private func listen(_ file: String) throws -> [String] {
    let made = try Programs.json(installation.run(["code", "--json"]))
    return [
      "listen", "--to", "localhost:\(installation.courierPort)", "--authority", "system",
      "--identity", installation.directory.appending(path: file).path, "--enroll",
      try #require(made["code"] as? String), "--topic", Installation.topic, "--json",
    ]
  }
}
