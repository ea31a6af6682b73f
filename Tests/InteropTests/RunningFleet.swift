import Foundation

/// A fleet connected to a service, and its files.
final class RunningFleet {
  let companion: Companion
  let tokens: URL
  let status: URL

  init(_ installation: Installation, devices: Int, _ extra: [String] = []) throws {
    let name = UUID().uuidString
    tokens = installation.directory.appending(path: "\(name).tokens")
    status = installation.directory.appending(path: "\(name).json")
    companion = try Companion(
      installation.apus,
      [
        "bench", "fleet", "--data", installation.directory.path, "--devices", "\(devices)",
        "--connect", "127.0.0.1:\(installation.courierPort)", "--print-tokens", tokens.path,
        "--status", status.path, "--reconnect-milliseconds", "200",
      ] + extra, name: "apus bench fleet")
  }

  deinit { companion.stop() }

  /// Waits until the status file meets a condition.
  func wait(for what: String, _ isMet: ([String: Any]) -> Bool) throws {
    let deadline = Date(timeIntervalSinceNow: 120)
    var last = ""
    while Date() < deadline {
      last = (try? String(contentsOf: status, encoding: .utf8)) ?? ""
      // The file is replaced atomically, so it is always complete JSON.
      if !last.isEmpty, isMet(try Programs.json(last)) { return }
      guard companion.status == nil else { break }
      Thread.sleep(forTimeInterval: 0.05)
    }
    throw Trouble("the fleet did not reach \(what): \(last)")
  }

  func waitForTokens() throws -> [String] {
    try wait(for: "all tokens") { _ in FileManager.default.fileExists(atPath: tokens.path) }
    return try String(contentsOf: tokens, encoding: .utf8).split(separator: "\n").map(String.init)
  }
}
