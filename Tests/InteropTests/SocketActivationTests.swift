import Foundation
import Testing

@Suite("apus serve on sockets that a service manager opened", .serialized, .timeLimit(.minutes(30)))
struct SocketActivationTests {
  @Test("Restarts refuse no connection of clients that connect all the time")
  func restarts() throws {
    let installation = try Installation()
    let socket = try ListeningSocket()
    var service = try ActivatedService(installation, [("http2", socket)])
    let clients = [
      SteadyClient(installation, port: socket.port), SteadyClient(installation, port: socket.port),
    ]
    for _ in 0..<4 {
      for client in clients { client.awaitMore(5) }
      // Connections between the end of one service and the start of the next wait in the kernel.
      #expect(service.stop() == 0)
      service = try ActivatedService(installation, [("http2", socket)])
    }
    for client in clients { client.awaitMore(5) }
    for client in clients { #expect(client.finish() == []) }
    #expect(service.stop() == 0)
  }

  @Test("Sockets go to listeners by name or by address, and the console gets its own")
  func assignment() throws {
    let installation = try Installation()
    let (named, addressed, console) = try (
      ListeningSocket(), ListeningSocket(), ListeningSocket()
    )
    let service = try ActivatedService(
      installation, [("http2", named), ("apus.socket", addressed), ("console", console)],
      ["--http2-development-listen", "127.0.0.1:\(addressed.port)", "--console", "127.0.0.1:1"])
    for socket in [named, addressed] {
      #expect(SteadyClient.get(installation.authority, socket.port, "/3/device/00") == "405")
    }
    let page = try Programs.run(
      URL(filePath: "/usr/bin/env"),
      ["curl", "--silent", "--max-time", "60", "http://127.0.0.1:\(console.port)/"])
    #expect(page.contains("<html"))
    #expect(service.stop() == 0)
  }

  @Test("A listener on such a socket keeps its modifiers")
  func modifiers() throws {
    let installation = try Installation()
    let (plain, proxied) = try (ListeningSocket(), ListeningSocket())
    let service = try ActivatedService(
      installation, [("http2", plain), ("http2-development", proxied)],
      ["--http2-development-listen", "127.0.0.1:2+proxy"])
    for (socket, header, status) in [
      (plain, [], "405"), (proxied, ["--haproxy-protocol"], "405"), (proxied, [], "000"),
    ] {
      let answer = try Programs.run(
        URL(filePath: "/bin/sh"),
        [
          "-c", #"curl "$@" || true"#, "curl", "--silent", "--http2", "--max-time", "60",
          "--cacert", installation.authority, "--output", "/dev/null", "--write-out",
          "%{http_code}",
        ] + header + ["https://127.0.0.1:\(socket.port)/3/device/00"])
      #expect(answer == status, "\(socket.port) \(header)")
    }
    #expect(service.stop() == 0)
  }

  @Test("A socket without a listener prevents the start, and the error names it")
  func unmatched() throws {
    let installation = try Installation()
    let service = try ActivatedService(installation, [("htpp2", try ListeningSocket())])
    #expect(service.waitForEnd() == 2)
  }

  @Test("Two services on one port are an error, whatever the number of their workers")
  func onePort() throws {
    let (first, second) = try (Installation(), Installation())
    try first.start(["--workers", "2"])
    let trouble = #expect(throws: Trouble.self) {
      let options = ["--workers", "2", "--http2-listen", "127.0.0.1:\(first.providerPort)"]
      try Programs.run(
        URL(filePath: "/bin/sh"),
        [
          "-c", #"exec timeout 60 "$0" "$@" 2>&1"#, second.apus.path, "serve", "--data",
          second.directory.path,
        ] + options + ActivatedService.closing(except: options))
    }
    #expect(trouble?.description.contains("address already in use") == true)
  }
}

/// A listening socket on loopback that stays open across restarts, like that of a service manager.
private final class ListeningSocket {
  let descriptor: Int32
  let port: UInt16

  init() throws {
    descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    var size = socklen_t(MemoryLayout<sockaddr_in>.size)
    let descriptor = descriptor
    let code = withUnsafeMutablePointer(to: &address) { address in
      address.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
        bind(descriptor, address, size) == 0 && listen(descriptor, 128) == 0
          && getsockname(descriptor, address, &size) == 0
      }
    }
    guard code else { throw Trouble("no listening socket: \(errno)") }
    port = UInt16(bigEndian: address.sin_port)
  }

  deinit { close(descriptor) }
}

/// `apus serve` with inherited sockets. Not a `Process`: Foundation closes all descriptors but the first three.
private final class ActivatedService {
  private var process: pid_t = 0
  private var status: Int32?

  /// Options that turn off all listeners not mentioned in `options`.
  static func closing(except options: [String]) -> [String] {
    [
      "http2", "http2-development", "courier", "courier-development", "gateway",
      "gateway-development", "feedback", "feedback-development",
    ].map { "--\($0)-listen" }.filter { !options.contains($0) }.flatMap { [$0, "off"] }
  }

  init(
    _ installation: Installation, _ sockets: [(name: String, socket: ListeningSocket)],
    _ extra: [String] = []
  ) throws {
    // The inherited socket replaces this address, which the service must not open itself.
    let options = ["--http2-listen", "127.0.0.1:1"] + extra
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    // Duplicate the descriptors above 1000, so that they do not overwrite each other at 3 and up.
    let copies = sockets.map { fcntl($0.socket.descriptor, F_DUPFD_CLOEXEC, 1000) }
    defer { for copy in copies { close(copy) } }
    for (index, copy) in copies.enumerated() {
      posix_spawn_file_actions_adddup2(&actions, copy, Int32(3 + index))
    }
    let names = sockets.map(\.name).joined(separator: ":")
    let script =
      "LISTEN_PID=$$ LISTEN_FDS=\(sockets.count) LISTEN_FDNAMES=\(names) "
      + #"exec "$0" "$@" >/dev/null"#
    let arguments =
      [
        "/bin/sh", "-c", script, installation.apus.path, "serve", "--data",
        installation.directory.path, "--log-level", "warning",
      ] + options + Self.closing(except: options)
    var pointers = arguments.map { strdup($0) } + [nil]
    defer { for pointer in pointers { free(pointer) } }
    let code = Programs.startAlone {
      posix_spawn(&process, "/bin/sh", &actions, nil, &pointers, environ)
    }
    guard code == 0 else { throw Trouble("apus serve was not started: \(code)") }
  }

  deinit { stop() }

  /// Stops the service as a service manager does, and returns its exit code.
  @discardableResult
  func stop() -> Int32 {
    if status == nil { kill(process, SIGTERM) }
    return waitForEnd()
  }

  func waitForEnd() -> Int32 {
    if let status { return status }
    var value: Int32 = 0
    while waitpid(process, &value, 0) < 0, errno == EINTR {}
    // The exit code, or the negative number of the signal that ended it.
    let code = value & 0x7f == 0 ? value >> 8 & 0xff : -(value & 0x7f)
    status = code
    return code
  }
}

/// Sends one request after the other, each on a new connection.
private final class SteadyClient: @unchecked Sendable {
  private let condition = NSCondition()
  private var served = 0
  private var failures: [String] = []
  private var isStopping = false
  private var hasEnded = false

  init(_ installation: Installation, port: UInt16) {
    let authority = installation.authority
    Thread.detachNewThread { [self] in
      while note(Self.get(authority, port, "/3/device/00")) {}
    }
  }

  /// The status of the response, or curl's error.
  static func get(_ authority: String, _ port: UInt16, _ path: String) -> String {
    do {
      return try Programs.run(
        URL(filePath: "/usr/bin/env"),
        [
          "curl", "--silent", "--http2", "--max-time", "60", "--cacert", authority,
          "--output", "/dev/null", "--write-out", "%{http_code}",
          "https://127.0.0.1:\(port)\(path)",
        ])
    } catch {
      return "\(error)"
    }
  }

  private func note(_ answer: String) -> Bool {
    condition.lock()
    defer {
      condition.broadcast()
      condition.unlock()
    }
    if answer == "405" { served += 1 } else { failures.append(answer) }
    hasEnded = isStopping
    return !isStopping
  }

  /// Waits for that many more requests, successful or not.
  func awaitMore(_ count: Int) {
    condition.lock()
    defer { condition.unlock() }
    let wanted = served + failures.count + count
    while served + failures.count < wanted { condition.wait() }
  }

  /// Stops, and returns the failures.
  func finish() -> [String] {
    condition.lock()
    defer { condition.unlock() }
    isStopping = true
    while !hasEnded { condition.wait() }
    return failures
  }
}
