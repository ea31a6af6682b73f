import ApusTLS
import Foundation
import Testing

/// Against the `openssl` command, over a Unix socket.
@Suite("TLS with OpenSSL's command line")
struct InteropTests {
  let certificates: TestCertificates

  init() throws { certificates = try TestCertificates.make() }

  @Test(
    "openssl s_client is served", .timeLimit(.minutes(1)),
    arguments: [("-tls1_2", TLSVersion.v1_2), ("-tls1_3", .v1_3)])
  func client(option: (String, TLSVersion)) throws {
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
    client.write("hello\n")
    try socket.carry(side) { side.received.last == 0x0a }
    #expect(side.received == Array("hello\n".utf8))
    #expect(side.connection.version == option.1)
    #expect(side.connection.negotiatedProtocol == "apus")
    #expect(side.connection.peerCertificateDER == der(certificates.device))
    try side.write(pattern(40000))
    side.close()
    try socket.send(side.takeSent())
    #expect(client.readToEnd() == pattern(40000))
  }

  @Test(
    "openssl s_server is understood", .timeLimit(.minutes(1)),
    arguments: [("-tls1_2", TLSVersion.v1_2), ("-tls1_3", .v1_3)])
  func server(option: (String, TLSVersion)) throws {
    // Short, as s_server gives up where its own address does not fit into 32 bytes.
    let name = socketName()
    // -rev answers each line backwards.
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

/// A running `openssl` with pipes.
private final class Command {
  private let process = Process()
  private let input = Foundation.Pipe()
  private let output = Foundation.Pipe()

  init(in directory: URL, _ arguments: String...) throws {
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = ["openssl"] + arguments
    process.currentDirectoryURL = directory
    process.standardInput = input
    process.standardOutput = output
    process.standardError = FileHandle.nullDevice
    try process.run()
  }

  func write(_ text: String) { input.fileHandleForWriting.write(Data(text.utf8)) }

  func readToEnd() -> [UInt8] { [UInt8](output.fileHandleForReading.readDataToEndOfFile()) }

  func readLine(beginningWith prefix: String) -> Bool {
    var line = ""
    while true {
      guard let byte = output.fileHandleForReading.readData(ofLength: 1).first else { return false }
      if byte != 0x0a {
        line.append(Character(UnicodeScalar(byte)))
        continue
      }
      if line.hasPrefix(prefix) { return true }
      line = ""
    }
  }

  func stop() {
    // Not SIGTERM: a child inherits the signals that its parent's threads have blocked.
    kill(process.processIdentifier, SIGKILL)
    process.waitUntilExit()
  }
}

private final class UnixSocket {
  struct Failed: Error { var step: String }

  private let descriptor: Int32

  init(_ descriptor: Int32) { self.descriptor = descriptor }
  deinit { Glibc.close(descriptor) }

  static func listening(at path: String) throws -> UnixSocket {
    let made = UnixSocket(Glibc.socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0))
    guard withAddress(path, { Glibc.bind(made.descriptor, $0, $1) }) == 0,
      Glibc.listen(made.descriptor, 1) == 0
    else { throw Failed(step: "listen") }
    return made
  }

  static func connected(to path: String) throws -> UnixSocket {
    let made = UnixSocket(Glibc.socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0))
    guard withAddress(path, { Glibc.connect(made.descriptor, $0, $1) }) == 0 else {
      throw Failed(step: "connect")
    }
    return made
  }

  func accept() throws -> UnixSocket {
    let accepted = Glibc.accept(descriptor, nil, nil)
    guard accepted >= 0 else { throw Failed(step: "accept") }
    return UnixSocket(accepted)
  }

  func send(_ bytes: [UInt8]) throws {
    var offset = 0
    while offset < bytes.count {
      let sent = bytes[offset...].withUnsafeBytes {
        Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
      }
      guard sent > 0 else { throw Failed(step: "send") }
      offset += sent
    }
  }

  /// Feeds what arrives, and sends the answers, until `isDone`.
  func carry(_ side: Side, until isDone: () -> Bool) throws {
    var area = [UInt8](repeating: 0, count: 65536)
    while !isDone(), side.failure == nil {
      let count = Glibc.recv(descriptor, &area, area.count, 0)
      guard count > 0 else { throw Failed(step: "receive") }
      side.feed(area[..<count])
      try send(side.takeSent())
    }
  }

  private static func withAddress(
    _ path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32
  ) -> Int32 {
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
    return withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        body($0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
  }
}
