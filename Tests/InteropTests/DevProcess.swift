import Foundation
import Testing

/// `apus dev` in a process of its own, on free ports.
final class DevProcess {
  let program: Companion
  let ready: [String: Any]

  init(_ extra: [String] = []) throws {
    program = try Companion(
      Programs.product("apus"), ["dev", "--free-ports", "--json"] + extra, name: "apus dev")
    ready = try program.first("ready")
  }

  func text(_ key: String) -> String { ready[key] as? String ?? "" }

  /// Stops the service as CI does, and returns its exit code.
  func stop() throws -> Int32 {
    program.stop()
    return try #require(program.status)
  }

  func api(_ method: String, _ path: String, _ body: String? = nil) throws -> [String: Any] {
    let content = body.map { ["--header", "content-type: application/json", "--data-binary", $0] }
    return try Programs.json(
      Programs.run(
        URL(filePath: "/usr/bin/env"),
        ["curl", "--silent", "--max-time", "60", "--request", method] + (content ?? [])
          + ["\(text("api"))/\(path)"]))
  }

  /// The phone's device token for the app.
  func token() throws -> String {
    let devices = try api("GET", "devices")["devices"] as? [[String: Any]]
    let tokens = devices?.first { $0["id"] as? String == "phone" }?["tokens"] as? [[String: String]]
    let token = tokens?.first {
      $0["topic"] == "com.example.app" && $0["environment"] == "production"
    }
    return try #require(token?["token"])
  }

  /// Runs a service that fails to start; returns its exit code and standard error.
  static func failure(_ arguments: [String]) throws -> (code: Int, text: String) {
    try Programs.attempt(["dev"] + arguments, .errors)
  }
}

/// A directory for one test.
struct Scratch {
  let url = FileManager.default.temporaryDirectory.appending(
    path: "apus-interop-\(UUID().uuidString)")

  init() throws {
    try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
  }

  func remove() { try? FileManager.default.removeItem(at: url) }

  var path: String { url.path }

  func write(_ text: String, _ name: String) throws -> String {
    let file = url.appending(path: name)
    try FileManager.default.createDirectory(
      at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
    try Data(text.utf8).write(to: file)
    return file.path
  }
}
