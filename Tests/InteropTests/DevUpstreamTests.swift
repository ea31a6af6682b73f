import Foundation
import Testing

@Suite("apus dev in front of another service", .timeLimit(.minutes(5)))
struct DevUpstreamTests {
  private let upstream: DevProcess
  private let dev: DevProcess

  init() throws {
    upstream = try DevProcess(["--strict"])
    let port = try #require((upstream.ready["http2"] as? [String: Int])?["production"])
    dev = try DevProcess([
      "--upstream", "https://localhost:\(port)", "--upstream-key", upstream.text("key_file"),
      "--upstream-key-id", upstream.text("key_id"), "--upstream-team", upstream.text("team"),
      "--upstream-authority", upstream.text("authority_file"),
    ])
  }

  private func send(_ token: String) throws -> (code: Int, text: String) {
    let port = try #require((dev.ready["http2"] as? [String: Int])?["production"])
    return try Programs.attempt([
      "send", "--to", "localhost:\(port)", "--authority", dev.text("authority_file"), "--key",
      dev.text("key_file"), "--key-id", dev.text("key_id"), "--team", dev.text("team"),
      "--topic", "com.example.app", "--token", token, "--alert", "hi",
    ])
  }

  /// The states of the newest push.
  private func states() throws -> [String] {
    let pushes = try dev.api("GET", "pushes")["pushes"] as? [[String: Any]]
    let states = pushes?.first?["states"] as? [[String: Any]]
    return (states ?? []).compactMap { $0["state"] as? String }
  }

  private func count(_ dev: DevProcess) throws -> Int {
    (try dev.api("GET", "pushes")["pushes"] as? [Any])?.count ?? 0
  }

  @Test("A push for another service's device is recorded and forwarded, with upstream's answer")
  func forwards() throws {
    defer {
      _ = try? dev.stop()
      _ = try? upstream.stop()
    }
    let accepted = try send(upstream.token())
    #expect(accepted.code == 0, "\(accepted)")
    #expect(try states() == ["Received by APNs", "Accepted Upstream"])
    let arrived = try upstream.api("GET", "pushes")["pushes"] as? [[String: Any]]
    #expect(arrived?.count == 1)

    // Lenient, this service would give it a virtual device; strict, upstream knows none.
    let rejected = try send(String(repeating: "ab", count: 32))
    #expect(rejected.code == 1, "\(rejected)")
    let pushes = try dev.api("GET", "pushes")["pushes"] as? [[String: Any]]
    let recorded = "\(pushes?.first ?? [:])"
    #expect(recorded.contains("BadDeviceToken"), "\(recorded)")
    #expect(try states() == ["Received by APNs", "Discarded - Rejected Upstream"])

    let own = try send(dev.token())
    #expect(own.code == 0, "\(own)")
    #expect(try count(dev) == 3)
    #expect(try count(upstream) == 2)
  }
}
