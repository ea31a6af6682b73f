import Foundation
import Testing

@Suite("apus serve under a service manager", .timeLimit(.minutes(30)))
struct ServiceManagerTests {
  @Test("The manager learns of readiness, each reload and the shutdown, and gets signs of life")
  func messages() throws {
    let installation = try Installation()
    let manager = try Manager()
    try installation.start(environment: [
      "NOTIFY_SOCKET": manager.path, "WATCHDOG_USEC": "300000",
    ])
    #expect(manager.next() == "READY=1\nSTATUS=serving on 4 addresses")
    for _ in 0..<3 { #expect(manager.next(skippingSignsOfLife: false) == "WATCHDOG=1") }
    installation.service?.signal(SIGHUP)
    #expect(manager.next().hasPrefix("RELOADING=1\nMONOTONIC_USEC="))
    #expect(manager.next() == "READY=1\nSTATUS=serving on 4 addresses")
    installation.service?.stop()
    #expect(manager.next() == "STOPPING=1\nSTATUS=shutting down")
  }

  @Test("Signals at once count as one; a later one cuts the shutdown short")
  func repeatedSignals() throws {
    // On a busy machine the service may have stopped by itself before the later one.
    let wasCutShort = try (0..<5).contains { _ in
      let (early, late) = try stopped()
      #expect(!early.contains("shutting down at once"))
      return late.contains("shutting down at once")
    }
    #expect(wasCutShort)
  }

  /// Stops a service by two signals, and by another one later. Returns what its log was before that, and at the end.
  private func stopped() throws -> (early: String, late: String) {
    let installation = try Installation()
    let log = installation.directory.appending(path: "serve.log")
    let service = try Companion(
      URL(filePath: "/bin/sh"),
      ["-c", #"exec "$@" 2>"$0""#, log.path] + command(installation) + ["--json"], name: "apus")
    // The shutdown gives its handshake two seconds.
    let idle = try idleConnection(to: Installation.port(service.first("ready")["http2"]))
    defer { close(idle) }
    service.signal(SIGTERM)
    service.signal(SIGINT)
    usleep(600_000)
    let early = try String(contentsOf: log, encoding: .utf8)
    service.stop()
    #expect(service.status == 0)
    return (early, try String(contentsOf: log, encoding: .utf8))
  }

  /// Starts a service with one listener.
  private func command(_ installation: Installation) -> [String] {
    [
      installation.apus.path, "serve", "--data", installation.directory.path, "--http2-listen",
      "127.0.0.1:0",
    ]
      + [
        "http2-development", "courier", "courier-development", "gateway", "gateway-development",
        "feedback", "feedback-development",
      ].flatMap { ["--\($0)-listen", "off"] }
  }

  private func idleConnection(to port: Int) throws -> Int32 {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = UInt16(port).bigEndian
    address.sin_addr.s_addr = in_addr_t(0x7f00_0001).bigEndian
    let code = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
    guard code == 0 else { throw Trouble("no connection: \(errno)") }
    return descriptor
  }

  @Test("In the journal each line of the log begins with its priority, elsewhere none does")
  func priorities() throws {
    let installation = try Installation()
    for (isJournal, pattern) in [
      (true, #"^<5>[0-9-]+T\S+ notice "#), (false, #"^[0-9-]+T\S+ notice "#),
    ] {
      let log = installation.directory.appending(path: "\(isJournal).log")
      let script =
        #"exec 2>"$0"; \#(isJournal ? #"export JOURNAL_STREAM="$(stat -c %d:%i "$0")"; "# : "")"#
        // Its signal comes twice, to the process and to the group.
        + #"exec timeout 2 "$@" >/dev/null"#
      _ = try? Programs.run(
        URL(filePath: "/bin/sh"),
        ["-c", script, log.path] + command(installation))
      let lines = try String(contentsOf: log, encoding: .utf8).split(separator: "\n")
      #expect(!lines.isEmpty)
      for line in lines {
        #expect(line.range(of: pattern, options: .regularExpression) != nil, "\(line)")
      }
    }
  }
}

/// The service manager's end of its socket.
private final class Manager {
  let path: String
  private let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)

  init() throws {
    path = "/tmp/apus-manager-\(getpid())-\(UInt32.random(in: 0 ... .max))"
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
    var patience = timeval(tv_sec: 60, tv_usec: 0)
    setsockopt(
      descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
    let code = withUnsafePointer(to: &address) { address in
      address.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    guard code == 0 else { throw Trouble("no socket for the manager: \(errno)") }
  }

  /// The next message; empty if none comes in a minute.
  func next(skippingSignsOfLife skips: Bool = true) -> String {
    while true {
      var bytes = [UInt8](repeating: 0, count: 1024)
      let count = recv(descriptor, &bytes, bytes.count, 0)
      let message = String(decoding: bytes.prefix(max(0, count)), as: UTF8.self)
      if !skips || message != "WATCHDOG=1" { return message }
    }
  }

  deinit {
    close(descriptor)
    unlink(path)
  }
}
