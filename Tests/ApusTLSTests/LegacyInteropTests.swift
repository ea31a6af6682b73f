import ApusTLS
import Foundation
import Testing

/// The `openssl` command acts as a legacy sender.
@Suite("Legacy senders with OpenSSL's command line")
struct LegacyInteropTests {
  let certificates: TestCertificates

  init() throws { certificates = try TestCertificates.make() }

  private func server(
    _ change: (inout TLSServerConfiguration) -> Void = { _ in }
  ) -> TLSServerConfiguration {
    certificates.serverConfiguration {
      $0.alternateIdentity = certificates.rsaServer
      $0.minimumVersion = .v1_0
      $0.sessionTickets = false
      $0.clientCertificates = .required(
        authoritiesPEM: certificates.authority + certificates.rsaAuthority)
      change(&$0)
    }
  }

  /// The outcome of one connection of `openssl s_client` that sends a line and reads a response.
  private struct Outcome {
    var side: Side
    /// Everything that the command printed, including the response.
    var printed: String
  }

  private func serve(
    _ arguments: [String], key: String = "rsa-", answering answer: String = "answer\n",
    _ configuration: TLSServerConfiguration
  ) throws -> Outcome {
    let name = "\(UInt32.random(in: 0 ... .max)).sock"
    let listener = try UnixSocket.listening(at: certificates.file(name))
    let client = try Command(
      in: certificates.directory,
      ["s_client", "-unix", name] + arguments + [
        "-CAfile", "\(key)ca.pem", "-verify_return_error", "-verify_hostname", "push.example.com",
        "-cert", "\(key)device.pem", "-key", "\(key)device.key",
      ])
    defer { client.stop() }
    let socket = try listener.accept()
    let side = try Side(TLSContext(server: configuration), TLSBuffers())
    client.write("hello\n")
    try socket.carry(side) { side.received.last == 0x0a }
    if side.failure == nil {
      try side.write(Array(answer.utf8))
      side.close()
      try socket.send(side.takeSent())
    }
    socket.finish()
    return Outcome(side: side, printed: String(decoding: client.readToEnd(), as: UTF8.self))
  }

  static let options: [(String, TLSVersion)] = [
    ("-tls1", .v1_0), ("-tls1_1", .v1_1), ("-tls1_2", .v1_2), ("-tls1_3", .v1_3),
  ]

  @Test(
    "Every version is served with mutual authentication, to ECDSA and RSA clients",
    .timeLimit(.minutes(30)), arguments: options, ["", "rsa-"])
  func versions(option: (String, TLSVersion), key: String) throws {
    let ciphers = key.isEmpty ? "aECDSA:@SECLEVEL=0" : "aRSA:@SECLEVEL=0"
    // TLS 1.3 has no authentication in its cipher suites; only the signatures show it.
    let signatures =
      option.1 < .v1_2
      ? [] : ["-sigalgs", key.isEmpty ? "ECDSA+SHA256" : "RSA+SHA256:rsa_pss_rsae_sha256"]
    let outcome = try serve(
      ["-quiet", option.0, "-cipher", ciphers] + signatures, key: key, server())
    #expect(outcome.side.failure == nil)
    #expect(outcome.side.received == Array("hello\n".utf8))
    #expect(outcome.side.connection.version == option.1)
    let device = key.isEmpty ? certificates.device : certificates.rsaDevice
    #expect(outcome.side.connection.peerCertificateDER == der(device))
    #expect(outcome.printed == "answer\n")
  }

  @Test(
    "A legacy client with its usual ciphers is served by an RSA identity alone",
    .timeLimit(.minutes(30)), arguments: ["-tls1", "-tls1_1"])
  func usualCiphers(option: String) throws {
    let outcome = try serve(
      ["-quiet", option, "-cipher", "DEFAULT@SECLEVEL=0"],
      server {
        $0.identity = certificates.rsaServer
        $0.alternateIdentity = nil
        $0.clientCertificates = .required(authoritiesPEM: certificates.rsaAuthority)
      })
    #expect(outcome.side.failure == nil)
    #expect(outcome.printed == "answer\n")
  }

  @Test(
    "A legacy client is refused if old versions are not allowed", .timeLimit(.minutes(30)),
    arguments: ["-tls1", "-tls1_1"])
  func refused(option: String) throws {
    let outcome = try serve(
      ["-quiet", option, "-cipher", "DEFAULT@SECLEVEL=0"], server { $0.minimumVersion = .v1_2 })
    #expect(
      outcome.side.failure == .handshakeFailed(reason: "unsupported protocol", alert: 70))
    #expect(outcome.printed == "")
  }

  @Test(
    "TLS 1.3 clients get no ticket unless tickets are on", .timeLimit(.minutes(30)),
    arguments: [false, true])
  func tickets(sessionTickets: Bool) throws {
    let outcome = try serve(["-tls1_3"], key: "", server { $0.sessionTickets = sessionTickets })
    #expect(outcome.side.failure == nil)
    #expect(outcome.printed.contains("answer\n"))
    #expect(outcome.printed.contains("New Session Ticket arrived") == sessionTickets)
  }

  @Test(
    "A client that offers ALPN is served if none is configured", .timeLimit(.minutes(30)),
    arguments: ["-tls1", "-tls1_2", "-tls1_3"])
  func foreignALPN(option: String) throws {
    let outcome = try serve(
      [option, "-cipher", "DEFAULT@SECLEVEL=0", "-alpn", "h2"], key: "", server())
    #expect(outcome.side.failure == nil)
    #expect(outcome.printed.contains("No ALPN negotiated"))
    #expect(outcome.printed.contains("answer\n"))
  }
}
