import Foundation

@testable import ApusTLS

/// A running `openssl` with pipes.
final class Command {
  private let process = Process()
  private let input = Foundation.Pipe()
  private let output = Foundation.Pipe()

  convenience init(in directory: URL, _ arguments: String...) throws {
    try self.init(in: directory, arguments)
  }

  init(in directory: URL, _ arguments: [String]) throws {
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

final class UnixSocket {
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

  /// Tells the peer that no more will be sent.
  func finish() { Glibc.shutdown(descriptor, Int32(SHUT_WR)) }

  /// Processes what arrives, and sends the responses, until `isDone`.
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
