import ApusThread
import Foundation
import Glibc
import Testing

@testable import ApusWeb

@Suite("The HTTP server")
struct ServerTests {
  private func request(_ line: String, _ fields: [String] = [], _ body: String = "") -> String {
    "\(line) HTTP/1.1\r\nHost: x\r\n" + fields.map { "\($0)\r\n" }.joined() + "\r\n\(body)"
  }

  private func last(_ line: String, _ fields: [String] = [], _ body: String = "") -> String {
    request(line, ["Connection: close"] + fields, body)
  }

  @Test("A request is answered with the security headers for browsers")
  func plain() throws {
    let server = try TestServer()
    let answer = try server.exchange(last("GET /a/b%2Fc?x=1%262&y"))
    #expect(answer.hasPrefix("HTTP/1.1 200 "))
    #expect(answer.hasSuffix("\r\n\r\nGET a|b/c?x=1&2&y= 0 somebody\n"))
    for field in WebResponse.defaultHeaders {
      #expect(answer.contains("\r\n\(field.name): \(field.value)\r\n"))
    }
  }

  @Test("HEAD has the headers of GET and no content")
  func head() throws {
    let server = try TestServer()
    let answer = try server.exchange(last("HEAD /a"))
    #expect(answer.hasPrefix("HTTP/1.1 200 ") && answer.hasSuffix("\r\n\r\n"))
    #expect(answer.contains("Content-Length: 19\r\n"))
  }

  @Test("Pipelined requests are answered one after the other")
  func pipelining() throws {
    let server = try TestServer()
    let answer = try server.exchange(
      request("GET /1") + request("POST /2", ["Content-Length: 3"], "abc") + last("GET /3"))
    let bodies = answer.split(separator: "\r\n").filter { $0.contains("somebody") }
    #expect(
      bodies.map { $0.prefix { $0 != "\n" } }
        == ["GET 1? 0 somebody", "POST 2? 3 somebody", "GET 3? 0 somebody"])
  }

  @Test("A body that arrives byte by byte is read completely, chunked or not")
  func slowBody() throws {
    let server = try TestServer()
    let socket = try server.connect()
    try socket.send(last("POST /a", ["Content-Length: 40"]))
    for _ in 0..<40 { try socket.send("x") }
    #expect(try socket.receiveAll().hasSuffix("POST a? 40 somebody\n"))
    let chunks = last(
      "POST /a", ["Transfer-Encoding: chunked"], "3\r\nabc\r\n5;x=y\r\ndefgh\r\n0\r\n\r\n")
    #expect(try server.exchange(chunks).hasSuffix("POST a? 8 somebody\n"))
  }

  @Test(
    "A body that is too large is rejected as soon as its length is known",
    arguments: [
      "Content-Length: 101", "Content-Length: 99999999999999999999", "Transfer-Encoding: chunked",
    ])
  func largeBody(field: String) throws {
    let server = try TestServer { $0.limits.bodyBytes = 100 }
    let body =
      field.hasPrefix("T") ? "78\r\n\(String(repeating: "x", count: 120))\r\n0\r\n\r\n" : ""
    let answer = try server.exchange(last("POST /a", [field], body))
    #expect(answer.hasPrefix("HTTP/1.1 413 ") || answer.hasPrefix("HTTP/1.1 400 "), "\(answer)")
    #expect(server.handler.asked.isEmpty)
    #expect(try server.exchange(last("GET /b")).hasPrefix("HTTP/1.1 200 "))
  }

  @Test("A body without an end ends with its connection")
  func endlessBody() throws {
    let server = try TestServer { $0.limits.bodyBytes = 100 }
    let socket = try server.connect()
    try socket.send(request("POST /a", ["Transfer-Encoding: chunked"]))
    let chunk = "400\r\n" + String(repeating: "x", count: 1024) + "\r\n"
    // The server closes after 16 times the limit, and then writing fails.
    for _ in 0..<2000 {
      do { try socket.send(chunk) } catch { break }
    }
    #expect(try socket.receiveAll().isEmpty)
    #expect(server.handler.asked.isEmpty)
  }

  @Test(
    "A request with an ambiguous length is rejected",
    arguments: [
      ["Content-Length: 3", "Transfer-Encoding: chunked"],
      ["Content-Length: 3", "Content-Length: 3"],
      ["Transfer-Encoding: gzip, chunked"],
      ["Content-Length: +3"],
      ["Content-Length: 3, 3"],
    ])
  func ambiguousLength(fields: [String]) throws {
    let server = try TestServer()
    let answer = try server.exchange(last("POST /a", fields, "0\r\n\r\n"))
    #expect(answer.hasPrefix("HTTP/1.1 4"), "\(answer)")
    #expect(server.handler.asked.isEmpty)
  }

  @Test(
    "Bytes that are not a request are rejected, and the next connection is served",
    arguments: [
      "\r\n\r\nGET\r\n\r\n", "GET /a\r\n\r\n",
      "GET /%zz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
      "GET /a HTTP/1.1\r\nConnection: close\r\n\r\n", "\u{16}\u{3}\u{1}\r\n\r\n",
      "GET /%00 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
      "GET http://x/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    ])
  func nonsense(text: String) throws {
    let server = try TestServer { $0.limits.idleSeconds = 1 }
    let answer = try server.exchange(text)
    #expect(!answer.hasPrefix("HTTP/1.1 2"), "\(answer)")
    #expect(server.handler.asked.isEmpty)
    #expect(try server.exchange(last("GET /b")).hasPrefix("HTTP/1.1 200 "))
  }

  @Test("A header without an end is rejected")
  func largeHead() throws {
    let server = try TestServer()
    let socket = try server.connect()
    try socket.send("GET /a HTTP/1.1\r\nHost: x\r\n")
    for index in 0..<3000 {
      do { try socket.send("X-\(index): \(String(repeating: "y", count: 100))\r\n") } catch {
        break
      }
    }
    let answer = try socket.receiveAll()
    #expect(answer.isEmpty || answer.hasPrefix("HTTP/1.1 4"), "\(answer)")
    #expect(server.handler.asked.isEmpty)
  }

  @Test(
    "An early answer ends the request; a delayed one is still sent"
  )
  func early() throws {
    let server = try TestServer()
    let refused = try server.exchange(request("POST /early", ["Content-Length: 1000"], "abc"))
    #expect(refused.hasPrefix("HTTP/1.1 403 ") && refused.hasSuffix("early\n"))
    let held = try server.exchange(last("POST /held", ["Content-Length: 3"], "abc"))
    #expect(held.hasPrefix("HTTP/1.1 401 ") && held.hasSuffix("held\n"))
    #expect(server.handler.asked.isEmpty)
  }

  @Test("A waiting answer does not delay other connections")
  func concurrency() throws {
    let server = try TestServer { $0.limits.threads = 2 }
    server.handler.close()
    let waiting = try server.connect()
    try waiting.send(last("GET /wait"))
    for _ in 0..<10 {
      #expect(try server.exchange(last("GET /a")).hasPrefix("HTTP/1.1 200 "))
    }
    server.handler.open()
    #expect(try waiting.receiveAll().hasSuffix("GET wait? 0 somebody\n"))
  }

  @Test("The limits that other tests lower are by default those of the security page")
  func documented() throws {
    let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent()
    let page = try String(
      contentsOf: root.appending(path: "Documentation/security.md"), encoding: .utf8)
    let limits = WebLimits()
    for row in [
      "connections | \(limits.connections)",
      "connections of one address | \(limits.connectionsPerAddress)",
      "time without a byte | \(limits.idleSeconds) seconds",
      "time to receive a request | \(limits.requestSeconds) seconds",
      "bytes of a request's head | \(limits.headBytes)",
      "bytes of a request's body | \(limits.bodyBytes)",
    ] {
      #expect(page.replacing(",", with: "").contains("\n| \(row) | "), "\(row)")
    }
  }

  @Test("Connections beyond the limit are closed, and ended ones make room")
  func connectionLimit() throws {
    let server = try TestServer { $0.limits.connections = 4 }
    var held = try (0..<4).map { _ in try server.connect() }
    for socket in held {
      try socket.send(request("GET /a"))
      _ = try socket.receive(through: "somebody\n")
    }
    // Accepted by the kernel, but not answered while there is no room.
    let extra = try server.connect()
    try extra.send(last("GET /b"))
    held.removeAll()
    // It was closed or is served now; either way the server serves the next.
    _ = try extra.receiveAll()
    #expect(try server.exchange(last("GET /c")).hasSuffix("GET c? 0 somebody\n"))
  }

  @Test("A request that takes too long to arrive is cut off, even if its bytes keep coming")
  func slowRequest() throws {
    let server = try TestServer { $0.limits.requestSeconds = 1 }
    let socket = try server.connect()
    try socket.send("GET /a HTTP/1.1\r\n")
    var isCut = false
    for index in 0..<600 where !isCut {
      do { try socket.send("X-\(index): y\r\n") } catch { isCut = true }
      usleep(100_000)
    }
    #expect(isCut)
    #expect(server.handler.asked.isEmpty)
  }

  @Test("Stopping sends the pending answers, and leaves nothing behind")
  func stopping() throws {
    let server = try TestServer()
    server.handler.close()
    let socket = try server.connect()
    try socket.send(request("GET /wait"))
    while server.handler.asked.isEmpty { usleep(1000) }
    let handler = server.handler
    Thread.detachNewThread { handler.open() }
    server.server.stop()
    #expect(try socket.receiveAll().hasSuffix("GET wait? 0 somebody\n"))
    #expect(!FileManager.default.fileExists(atPath: server.path))
    #expect(throws: RawSocket.Fault.self) { try server.connect() }
    server.server.stop()
  }
}

@Suite("Streams")
struct StreamTests {
  private static let head = "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n"

  private func open(_ server: TestServer) throws -> (RawSocket, WebStream) {
    let socket = try server.connect()
    try socket.send(Self.head)
    _ = try socket.receive(through: "\r\n\r\n")
    return (socket, try #require(server.handler.stream))
  }

  @Test("Written data arrives immediately, and the end as an end")
  func events() throws {
    let server = try TestServer()
    let (socket, stream) = try open(server)
    for index in 0..<3 {
      #expect(stream.write(Array("data: \(index)\n\n".utf8)) == .taken)
      _ = try socket.receive(through: "data: \(index)\n\n")
    }
    stream.end()
    _ = try socket.receive(through: "0\r\n\r\n")
    #expect(stream.write([1]) == .closed)
  }

  @Test("A client that does not read fills only its share, and continues when it reads")
  func backPressure() throws {
    let server = try TestServer()
    let (socket, stream) = try open(server)
    let block = [UInt8](repeating: 0x61, count: 16 * 1024)
    var taken = 0
    // The server goes on emptying the stream into the socket until the socket's buffers are full, too.
    var refused = 0
    while refused < 20 {
      switch stream.write(block) {
      case .taken: (taken, refused) = (taken + 1, 0)
      case .full:
        refused += 1
        usleep(1000)
      case .closed:
        Issue.record("the stream ended")
        return
      }
    }
    #expect(taken >= 4)
    var received = 0
    while received < taken * block.count {
      received += try socket.receive().count { $0 == 0x61 }
    }
    #expect(received == taken * block.count)
    #expect(stream.drain() == .taken)
    server.handler.onRoom.wait { $0 > 0 ? .found(()) : .wait(untilMilliseconds: nil) }
    #expect(stream.write(block) == .taken)
  }

  @Test("A disconnected client closes the stream at the next write")
  func gone() throws {
    let server = try TestServer()
    var pair: (RawSocket, WebStream)? = try open(server)
    let stream = try #require(pair?.1)
    pair = nil
    // The system notices with the response to a write; the first bytes may still seem to arrive.
    while stream.write([0x61]) != .closed { usleep(1000) }
    #expect(stream.isClosed)
    #expect(stream.drain() == .closed)
  }

  @Test("Stopping the server ends its streams")
  func stopping() throws {
    let server = try TestServer()
    let (socket, stream) = try open(server)
    server.server.stop()
    #expect(try socket.receiveAll().hasSuffix("0\r\n\r\n"))
    #expect(stream.write([1]) == .closed)
  }
}

@Suite("Where a server listens")
struct ListenerTests {
  @Test("A UNIX socket is accessible to its owner only, and its peer is known")
  func mode() throws {
    let server = try TestServer()
    let mode = try FileManager.default.attributesOfItem(atPath: server.path)[.posixPermissions]
    #expect(mode as? Int == 0o600)
    _ = try server.exchange("GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    #expect(server.handler.peers == [.local(user: getuid(), process: getpid())])
  }

  @Test("A second server on a socket fails, and the first one continues")
  func twice() throws {
    let server = try TestServer()
    #expect(throws: WebError.socketTaken(path: server.path)) {
      try WebServer(.init(endpoint: .unix(path: server.path)), handler: EchoHandler())
    }
    let answer = try server.exchange("GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    #expect(answer.hasPrefix("HTTP/1.1 200 "))
  }

  @Test("The socket of a killed server is taken over, but no other file")
  func stale() throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "web-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    let path = folder.appending(path: "s").path
    let listener = try WebListener(.unix(path: path))
    // As the kernel does for a killed process: the descriptor closes, the file stays.
    Glibc.close(listener.descriptor)
    #expect(FileManager.default.fileExists(atPath: path))
    let server = try WebServer(.init(endpoint: .unix(path: path)), handler: EchoHandler())
    server.stop()
    try Data("mine".utf8).write(to: URL(filePath: path))
    #expect(throws: WebError.notASocket(path: path)) {
      try WebServer(.init(endpoint: .unix(path: path)), handler: EchoHandler())
    }
    #expect(try String(contentsOfFile: path, encoding: .utf8) == "mine")
  }

  @Test("A path that no socket can have is rejected with a message")
  func longPath() throws {
    let path = "/tmp/" + String(repeating: "a", count: 200)
    #expect(throws: WebError.pathTooLong(path: path, limit: 107)) {
      try WebServer(.init(endpoint: .unix(path: path)), handler: EchoHandler())
    }
  }

  @Test("On TCP the connections of one address are limited, and a used port is an error")
  func tcp() throws {
    let server = try TestServer { configuration in
      configuration.endpoint = .tcp(host: "127.0.0.1", port: 0)
      configuration.limits.connectionsPerAddress = 2
    }
    let port = try #require(server.server.port)
    let first = try RawSocket(port: port)
    try first.send("GET /a HTTP/1.1\r\nHost: x\r\n\r\n")
    _ = try first.receive(through: "somebody\n")
    let second = try RawSocket(port: port)
    try second.send("GET /a HTTP/1.1\r\nHost: x\r\n\r\n")
    _ = try second.receive(through: "somebody\n")
    let third = try RawSocket(port: port)
    #expect(try third.receive().isEmpty)
    #expect(throws: WebError.self) {
      try WebServer(.init(endpoint: .tcp(host: "127.0.0.1", port: port)), handler: EchoHandler())
    }
  }
}
