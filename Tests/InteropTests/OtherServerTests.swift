import Foundation
import Testing

/// `apus send` against the HTTP/2 servers of other projects (serve.py), which answer everything with 200.
@Suite("Servers of other projects", .timeLimit(.minutes(10)))
struct OtherServerTests {
  private static let count = 400

  /// A list for topics, keys and certificates that only these tests use.
  private struct Scene {
    let folder: URL

    init() throws {
      folder = FileManager.default.temporaryDirectory.appending(path: "servers-\(UUID())")
      try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
      // 3.9 KB each: together more than any server's first window.
      let text = String(repeating: "x", count: 3900)
      let rows = (1...OtherServerTests.count).map {
        "{\"token\":\"\(String(repeating: "ab", count: 32))\",\"n\":\($0),\"text\":\"\(text)\"}\n"
      }
      try rows.joined().write(to: path("list.jsonl"), atomically: true, encoding: .utf8)
      let script = """
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost \
          -addext subjectAltName=DNS:localhost -keyout server.key -out server.pem &&
        openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out provider.p8
        """
      try Programs.run(
        URL(filePath: "/bin/sh"), ["-c", "cd \(folder.path) && { \(script); } 2>&1"])
    }

    func path(_ name: String) -> URL { folder.appending(path: name) }

    func send(to port: Int) throws -> [String: Any] {
      let printed = try Programs.run(
        Programs.product("apus"),
        [
          "send", "--to", "localhost:\(port)", "--authority", path("server.pem").path, "--key",
          path("provider.p8").path, "--key-id", "ABCDEFGHIJ", "--team", "ABCDEFGHIJ", "--topic",
          "com.example", "--tokens", path("list.jsonl").path, "--payload",
          #"{"aps":{"alert":"{{text}}"},"n":"{{n}}"}"#, "--json",
        ])
      let last = try #require(printed.split(separator: "\n").last)
      return try Programs.json(last)
    }
  }

  /// - Go's net/http answers without reading the body, and then resets the stream with NO_ERROR.
  /// - `h2` checks everything that a client sends, and refills windows frame by frame.
  /// - HAProxy and nginx answer while the body is still on its way, and do not read the rest.
  /// - nginx ends each connection with GOAWAY after 50 requests; those that crossed with it are sent again.
  /// - nghttpd sends each body back: 4 KB in each answer.
  /// - Node sends the header fields of its answer before it has read the request.
  @Test(
    "Every push is accepted, once",
    arguments: ["go", "h2", "haproxy", "nghttpd", "nginx", "node"])
  func sends(server: String) throws {
    let scene = try Scene()
    defer { try? FileManager.default.removeItem(at: scene.folder) }
    let other = try Companion(
      Programs.python(),
      [
        Programs.root.appending(path: "Tests/InteropTests/serve.py").path, server,
        scene.path("server.pem").path, scene.path("server.key").path, scene.folder.path,
      ], name: server)
    defer { other.stop() }
    let port = try #require(try other.first("ready")["port"] as? Int)
    let summary = try scene.send(to: port)
    #expect(summary["accepted"] as? Int == Self.count, "\(summary)")
  }
}
