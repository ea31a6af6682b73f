import Foundation
import Testing

@Suite("aioapns from PyPI", .serialized)
struct AioapnsTests {
  static let deviceCount = 10
  static let notificationCount = 2_000

  enum Credential: String, CaseIterable {
    case token
    case certificate
  }

  @Test(
    "2,000 notifications reach 10 devices exactly once, and two bad ones are reported",
    .timeLimit(.minutes(30)), arguments: Credential.allCases)
  func sends(credential: Credential) throws {
    let installation = try Installation()
    try installation.start()
    let devices = try (0..<Self.deviceCount).map { try installation.device("device \($0)") }
    let tokens = try devices.map { try $0.connect() }
    let removed = try installation.device("removed")
    let deadToken = try removed.connect()
    try removed.removeApp()
    let foreignToken = String(repeating: "5a", count: 32)

    // 2,000 in total, including the two bad ones.
    var plan: [String: Any] = [
      "host": "localhost", "port": installation.providerPort,
      "authority": installation.authority, "topic": Installation.topic, "tokens": tokens,
      "count": Self.notificationCount - 2, "extra": [foreignToken, deadToken],
    ]
    switch credential {
    case .token:
      plan["key"] = installation.text("key_file")
      plan["key_id"] = installation.text("key_id")
      plan["team"] = installation.text("team")
    case .certificate: plan["certificate"] = try installation.providerCertificate()
    }
    let report = try send(plan, in: installation)

    #expect(report["accepted"] as? Int == Self.notificationCount - 2)
    let failures = (report["failures"] as? [[String: Any]] ?? []).map {
      "\($0["token"] ?? "") \($0["status"] ?? "") \($0["reason"] ?? "")"
    }
    #expect(
      failures.sorted()
        == ["\(foreignToken) 400 BadDeviceToken", "\(deadToken) 410 Unregistered"].sorted())
    for (index, device) in devices.enumerated() {
      let expected = stride(
        from: index, to: Self.notificationCount - 2, by: Self.deviceCount
      ).map { $0 }
      // In any order: the client sends over several connections.
      #expect(try device.shown(atLeast: expected.count).sorted() == expected, "device \(index)")
    }
    #expect(removed.numbers.isEmpty)
  }

  private func send(_ plan: [String: Any], in installation: Installation) throws -> [String: Any] {
    let file = installation.directory.appending(path: "plan.json")
    try JSONSerialization.data(withJSONObject: plan).write(to: file)
    let script = Programs.root.appending(path: "Tests/InteropTests/Senders/send_with_aioapns.py")
    return try Programs.json(
      Programs.run(Programs.python(), [script.path, file.path]))
  }
}
