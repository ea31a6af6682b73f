import ApusThread
import Foundation
import Glibc
import Synchronization
import Testing

@testable import ApusWeb

/// Echoes requests, and can be made to wait.
final class EchoHandler: WebHandler {
  /// Closed by a test to make answers wait.
  let gate = Monitor(true)
  private let log = Mutex<[String]>([])
  private let streams = Mutex<[WebStream]>([])
  let onRoom: Monitor<Int>

  init() { onRoom = Monitor(0) }

  private let seen = Mutex<[WebPeer]>([])

  var peers: [WebPeer] { seen.withLock { $0 } }
  var asked: [String] { log.withLock { $0 } }
  var stream: WebStream? { streams.withLock { $0.last } }

  func screen(_ head: inout WebRequest) -> WebResponse? {
    switch head.segments.first {
    case "early": return WebResponse(403, text: "early\n")
    case "held":
      var response = WebResponse(401, text: "held\n")
      response.holdMilliseconds = 50
      return response
    default:
      head.caller = WebCaller(name: "somebody", origin: head.peer.text, rights: 5)
      return nil
    }
  }

  func answer(_ request: WebRequest) -> WebResponse {
    seen.withLock { $0.append(request.peer) }
    log.withLock { $0.append(request.segments.joined(separator: "/")) }
    switch request.segments.first {
    case "wait": gate.wait { $0 ? .found(()) : .wait(untilMilliseconds: nil) }
    case "stream":
      let stream = WebStream(capacity: 64 * 1024) { [onRoom] in onRoom.notify { $0 += 1 } }
      streams.withLock { $0.append(stream) }
      return WebResponse(200, contentType: "text/event-stream", body: .stream(stream))
    default: break
    }
    let query = request.query.map { "\($0.name)=\($0.value)" }.joined(separator: "&")
    let text =
      "\(request.method) \(request.segments.joined(separator: "|"))?\(query) \(request.body.count) "
      + "\(request.caller?.name ?? "nobody")\n"
    return WebResponse(200, text: text)
  }

  func malformed(_ problem: String) -> WebResponse {
    WebResponse(400, text: "malformed: \(problem)\n")
  }
  func tooLarge(limitBytes: Int) -> WebResponse { WebResponse(413, text: "over \(limitBytes)\n") }

  func close() { gate.notify { $0 = false } }
  func open() { gate.notify { $0 = true } }
}

/// A server on a UNIX socket in its own folder, or on the loopback.
final class TestServer {
  let handler = EchoHandler()
  let server: WebServer
  let path: String
  private let folder: URL

  init(_ change: (inout WebServerConfiguration) -> Void = { _ in }) throws {
    folder = FileManager.default.temporaryDirectory.appending(path: "web-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    path = folder.appending(path: "s").path
    var configuration = WebServerConfiguration(endpoint: .unix(path: path))
    change(&configuration)
    server = try WebServer(configuration, handler: handler)
  }

  deinit {
    handler.open()
    server.stop()
    try? FileManager.default.removeItem(at: folder)
  }

  func connect() throws -> RawSocket { try RawSocket(unix: path) }

  /// Sends these bytes and returns all data until the server closes.
  func exchange(_ text: String) throws -> String {
    let socket = try connect()
    try socket.send(text)
    return try socket.receiveAll()
  }
}

/// A socket that sends and receives bytes, with a timeout of one minute.
final class RawSocket {
  struct Fault: Error, CustomStringConvertible {
    var description: String
    init(_ operation: String) { description = "\(operation): \(String(cString: strerror(errno)))" }
  }

  private let descriptor: Int32

  private init(_ descriptor: Int32) throws {
    guard descriptor >= 0 else { throw Fault("socket") }
    self.descriptor = descriptor
    var limit = timeval(tv_sec: 60, tv_usec: 0)
    setsockopt(
      descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
  }

  convenience init(unix path: String) throws {
    try self.init(socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0))
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array(path.utf8)) }
    let code = withUnsafePointer(to: &address) { address in
      address.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        Glibc.connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    guard code == 0 else { throw Fault("connect") }
  }

  convenience init(port: UInt16) throws {
    try self.init(socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0))
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    let code = withUnsafePointer(to: &address) { address in
      address.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        Glibc.connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
    guard code == 0 else { throw Fault("connect") }
  }

  deinit { Glibc.close(descriptor) }

  func send(_ text: String) throws {
    var rest = Array(text.utf8)[...]
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes {
        Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
      }
      guard count > 0 else { throw Fault("send") }
      rest = rest.dropFirst(count)
    }
  }

  /// The next bytes; empty at the end.
  func receive(_ limit: Int = 65_536) throws -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: limit)
    let count = bytes.withUnsafeMutableBytes { recv(descriptor, $0.baseAddress, $0.count, 0) }
    // A server that has not read everything resets the connection.
    if count < 0, errno == ECONNRESET { return [] }
    guard count >= 0 else { throw Fault("recv") }
    return Array(bytes[..<count])
  }

  func receiveAll() throws -> String {
    var bytes: [UInt8] = []
    while true {
      let more = try receive()
      if more.isEmpty { return String(decoding: bytes, as: UTF8.self) }
      bytes += more
    }
  }

  /// Receives until the data contains the text.
  func receive(through text: String) throws -> String {
    var received = ""
    while !received.contains(text) {
      let more = try receive()
      if more.isEmpty { throw Fault("the end came before \(text.debugDescription); \(received)") }
      received += String(decoding: more, as: UTF8.self)
    }
    return received
  }
}
