import Foundation
import Testing

/// `apus send --tokens` against a service, ended by real signals.
@Suite("A list is sent without duplicates, however the run ends", .serialized)
struct SendListTests {
  private static let count = 600

  private struct Scene {
    let installation: Installation
    let device: InstalledDevice
    let token: String
    let list: URL
    let results: URL

    init() throws {
      installation = try Installation()
      try installation.start()
      device = try installation.device("phone")
      token = try device.connect()
      list = installation.directory.appending(path: "list.jsonl")
      results = installation.directory.appending(path: "results.jsonl")
      let rows = (1...SendListTests.count).map { "{\"token\":\"\(token)\",\"n\":\($0)}\n" }
      try rows.joined().write(to: list, atomically: true, encoding: .utf8)
    }

    func run(_ extra: String...) throws -> Companion {
      try Companion(
        installation.apus,
        [
          "send", "--to", "localhost:\(installation.providerPort)", "--data",
          installation.directory.path, "--tokens", list.path, "--results", results.path,
          "--payload", #"{"aps":{"alert":"Number {{n}}"},"n":"{{n}}"}"#, "--json",
        ] + extra, name: "apus send")
    }

    /// The last outcome and the apns-id of each row in the results file.
    func outcomes() throws -> [Int: (outcome: String, id: String)] {
      let text = try String(contentsOf: results, encoding: .utf8)
      var outcomes: [Int: (outcome: String, id: String)] = [:]
      for line in text.split(separator: "\n") {
        // Ignore a truncated line.
        guard let object = try? Programs.json(line), let row = object["row"] as? Int else {
          continue
        }
        outcomes[row] = (object["outcome"] as? String ?? "", object["apns_id"] as? String ?? "")
      }
      return outcomes
    }
  }

  private func waitForOutcomes(_ count: Int, _ run: Companion) throws {
    _ = try run.wait(for: "\(count) accepted rows") { lines in
      lines.count { $0["outcome"] as? String == "accepted" } >= count ? true : nil
    }
  }

  @Test("After SIGKILL every row is sent once, or known to be doubtful", .timeLimit(.minutes(30)))
  func killed() throws {
    let scene = try Scene()
    let first = try scene.run("--rate", "100")
    try waitForOutcomes(150, first)
    first.stop(SIGKILL)

    let second = try scene.run("--resume")
    let summary = try second.first("summary")
    let doubtful = summary["left_in_doubt"] as? Int ?? -1
    let outcomes = try scene.outcomes()
    #expect(outcomes.count == Self.count)
    let inDoubt = Set(outcomes.filter { $0.value.outcome == "unknown" }.keys)
    let accepted = Set(outcomes.filter { $0.value.outcome == "accepted" }.keys)
    #expect(inDoubt.count == doubtful)
    #expect(accepted.count == Self.count - doubtful)
    #expect(summary["settled_before"] as? Int ?? 0 >= 150)
    let shown = try scene.device.shown(atLeast: accepted.count)
    #expect(accepted.isSubset(of: shown))
    #expect(Set(shown).count == shown.count)

    // The operator prefers duplicates to gaps.
    let third = try scene.run("--resume", "--retry-doubtful")
    #expect(try third.first("summary")["accepted"] as? Int == doubtful)
    let all = try scene.device.shown(atLeast: accepted.count + doubtful)
    #expect(Set(all) == Set(1...Self.count))
    for row in inDoubt {
      let ids = scene.device.ids(of: row)
      #expect(ids.count <= 2 && ids.allSatisfy { $0 == outcomes[row]?.id })
    }
  }

  @Test(
    "After SIGINT no row is doubtful, and the next run sends the rest", .timeLimit(.minutes(30)))
  func interrupted() throws {
    let scene = try Scene()
    // Slow enough that the list is not finished before the signal, even on a busy machine.
    let first = try scene.run("--rate", "40")
    try waitForOutcomes(50, first)
    first.stop(SIGINT)
    let before = try first.first("summary")["accepted"] as? Int ?? 0
    #expect((50..<Self.count).contains(before))
    let second = try scene.run("--resume")
    let summary = try second.first("summary")
    #expect(summary["left_in_doubt"] as? Int == 0)
    #expect(summary["settled_before"] as? Int == before)
    #expect(summary["accepted"] as? Int == Self.count - before)
    let shown = try scene.device.shown(atLeast: Self.count)
    #expect(shown.sorted() == Array(1...Self.count))
  }

  @Test("Results are neither overwritten nor continued with another list")
  func otherList() throws {
    let scene = try Scene()
    let run = try scene.run()
    #expect(try run.first("summary")["accepted"] as? Int == Self.count)
    func problem(_ extra: String...) throws -> String {
      do {
        try Programs.run(
          scene.installation.apus,
          [
            "send", "--to", "localhost:\(scene.installation.providerPort)", "--data",
            scene.installation.directory.path, "--tokens", scene.list.path, "--results",
            scene.results.path, "--alert", "Hi", "--json",
          ] + extra)
        return ""
      } catch let trouble as Trouble { return trouble.description }
    }
    let size = try Data(contentsOf: scene.results).count
    #expect(try problem().contains("ended with 2"))
    let rows = try String(contentsOf: scene.list, encoding: .utf8).split(separator: "\n")
    try (rows.dropFirst().joined(separator: "\n") + "\n").write(
      to: scene.list, atomically: true, encoding: .utf8)
    #expect(try problem("--resume").contains("ended with 2"))
    #expect(try scene.device.shown(atLeast: Self.count).count == Self.count)
    #expect(try Data(contentsOf: scene.results).count < size + 10)
  }
}

extension InstalledDevice {
  /// The ids of the shown notifications with this "n".
  func ids(of number: Int) -> [String] {
    (listener?.all("notification") ?? []).compactMap { line in
      (line["payload"] as? [String: Any])?["n"] as? Int == number ? line["apns_id"] as? String : nil
    }
  }
}
