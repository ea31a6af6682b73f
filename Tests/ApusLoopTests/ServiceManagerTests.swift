import Foundation
import Testing

@testable import ApusLoop

@Suite("Messages to the service manager")
struct ServiceManagerTests {
  @Test("Each message is one datagram of lines NAME=value, as sd_notify(3) describes")
  func messages() throws {
    let socket = try ManagerSocket()
    let manager = try #require(ServiceManager(["NOTIFY_SOCKET": socket.path]))
    manager.ready("serving\non 2 addresses")
    manager.reloading(monotonicMicroseconds: 1_234_567)
    manager.stopping()
    manager.isAlive()
    #expect(socket.receive() == "READY=1\nSTATUS=serving on 2 addresses")
    #expect(socket.receive() == "RELOADING=1\nMONOTONIC_USEC=1234567")
    #expect(socket.receive() == "STOPPING=1\nSTATUS=shutting down")
    #expect(socket.receive() == "WATCHDOG=1")
  }

  @Test("A name that begins with @ is that of an abstract socket")
  func abstract() throws {
    let name = "apus-test-\(getpid())-\(UInt64.random(in: 0 ... .max))"
    let socket = try ManagerSocket(abstract: name)
    try #require(ServiceManager(["NOTIFY_SOCKET": "@\(name)"])).isAlive()
    #expect(socket.receive() == "WATCHDOG=1")
  }

  @Test("A manager that is gone, or does not read, delays nothing")
  func unread() throws {
    var socket: ManagerSocket? = try ManagerSocket()
    let path = try #require(socket).path
    let manager = try #require(ServiceManager(["NOTIFY_SOCKET": path]))
    for _ in 0..<10_000 { manager.isAlive() }
    socket = nil
    manager.isAlive()
  }

  @Test(
    "Without a usable socket there is no manager",
    arguments: [nil, "", "relative/path", "vsock:2:1", "/" + String(repeating: "a", count: 200)])
  func none(name: String?) {
    #expect(ServiceManager(name.map { ["NOTIFY_SOCKET": $0] } ?? [:]) == nil)
  }

  @Test(
    "The watchdog's interval counts only for the process that it names",
    arguments: [
      ([:], nil),
      (["WATCHDOG_USEC": "60000000"], 60_000),
      (["WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "7"], 60_000),
      (["WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "8"], nil),
      (["WATCHDOG_USEC": "999"], nil),
      (["WATCHDOG_USEC": "soon"], nil),
    ] as [([String: String], UInt64?)])
  func watchdog(environment: [String: String], expected: UInt64?) throws {
    let socket = ["NOTIFY_SOCKET": "/run/systemd/notify"]
    let manager = try #require(
      ServiceManager(environment.merging(socket) { $1 }, process: 7))
    #expect(manager.watchdogMilliseconds == expected)
  }
}

/// The service manager's end.
private final class ManagerSocket {
  let path: String
  private let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)

  init() throws {
    path = "/tmp/apus-manager-\(getpid())-\(UInt32.random(in: 0 ... .max))"
    try bind(Array(path.utf8))
  }

  init(abstract name: String) throws {
    path = ""
    try bind([0] + Array(name.utf8))
  }

  private func bind(_ name: [UInt8]) throws {
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: name) }
    let code = withUnsafePointer(to: &address) { address in
      address.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        Glibc.bind(descriptor, $0, socklen_t(2 + name.count))
      }
    }
    try #require(code == 0)
  }

  func receive() -> String {
    var bytes = [UInt8](repeating: 0, count: 1024)
    let count = recv(descriptor, &bytes, bytes.count, 0)
    return String(decoding: bytes.prefix(max(0, count)), as: UTF8.self)
  }

  deinit {
    close(descriptor)
    if !path.isEmpty { unlink(path) }
  }
}
