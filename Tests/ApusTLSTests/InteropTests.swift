import ApusTLS
import Foundation
import Testing

/// Against the `openssl` command, over a Unix socket.
@Suite("TLS with OpenSSL's command line")
struct InteropTests {
  let certificates: TestCertificates

  init() throws { certificates = try TestCertificates.make() }

  @Test(
    "openssl s_client is served", .timeLimit(.minutes(30)),
    arguments: [("-tls1_2", TLSVersion.v1_2), ("-tls1_3", .v1_3)], [true, false])
  func client(option: (String, TLSVersion), compacts: Bool) throws {
    let name = socketName()
    let listener = try UnixSocket.listening(at: certificates.file(name))
    let client = try Command(
      in: certificates.directory, "s_client", "-unix", name, "-quiet", option.0, "-alpn", "h2,apus",
      "-CAfile", "ca.pem", "-verify_return_error", "-verify_hostname", "push.example.com",
      "-cert", "device.pem", "-key", "device.key")
    defer { client.stop() }
    let socket = try listener.accept()
    let side = try Side(
      TLSContext(
        server: certificates.serverConfiguration {
          $0.applicationProtocols = ["apus"]
          $0.acceptsClientsWithoutALPN = false
          $0.clientCertificates = .requested(authoritiesPEM: certificates.authority)
        }), TLSBuffers())
    side.compacts = compacts
    client.write("hello\n")
    try socket.carry(side) { side.received.last == 0x0a }
    #expect(side.received == Array("hello\n".utf8))
    #expect(side.connection.isCompact == (compacts && option.1 == .v1_3))
    #expect(side.connection.version == option.1)
    #expect(side.connection.negotiatedProtocol == "apus")
    #expect(side.connection.peerCertificateDER == der(certificates.device))
    try side.write(pattern(40000))
    side.close()
    try socket.send(side.takeSent())
    #expect(client.readToEnd() == pattern(40000))
  }

  @Test(
    "openssl s_server is understood", .timeLimit(.minutes(30)),
    arguments: [("-tls1_2", TLSVersion.v1_2), ("-tls1_3", .v1_3)])
  func server(option: (String, TLSVersion)) throws {
    // Short, because s_server fails if its own address does not fit into 32 bytes.
    let name = socketName()
    // -rev returns each line backwards.
    let server = try Command(
      in: certificates.directory, "s_server", "-unix", name, "-rev", "-naccept", "1", option.0,
      "-alpn", "apus",
      "-cert", "server.pem", "-key", "server.key", "-CAfile", "ca.pem", "-Verify", "2")
    defer { server.stop() }
    #expect(server.readLine(beginningWith: "ACCEPT"))
    let socket = try UnixSocket.connected(to: certificates.file(name))
    let side = try Side(
      TLSContext(
        client: certificates.clientConfiguration {
          $0.applicationProtocols = ["h2", "apus"]
          $0.identity = certificates.device
        }), TLSBuffers())
    side.start()
    try socket.send(side.takeSent())
    try socket.carry(side) { side.connection.isEstablished }
    #expect(side.failure == nil)
    #expect(side.connection.version == option.1)
    #expect(side.connection.negotiatedProtocol == "apus")
    try side.write(Array("never odd\n".utf8))
    try socket.send(side.takeSent())
    try socket.carry(side) { side.received.last == 0x0a }
    #expect(side.received == Array("ddo reven\n".utf8))
  }

  private func socketName() -> String { "\(UInt32.random(in: 0 ... .max)).sock" }
}
