import Foundation
import Testing

@Suite("Accepted broadcasts survive a kill of the service", .serialized, .timeLimit(.minutes(30)))
struct BroadcastDurabilityTests {
  private let installation: Installation
  private let device: InstalledDevice
  private let channel: String
  private let list: URL

  init() throws {
    installation = try Installation()
    let data = installation.directory.path
    list = installation.directory.appending(path: "list.jsonl")
    _ = try Programs.run(
      installation.apus,
      ["app", "--data", data, "--change", Installation.topic, "--broadcast", "on"])
    try installation.start()
    channel = try Programs.run(
      installation.apus, ["channel", "create", "--data", data, "--topic", Installation.topic]
    ).trimmingCharacters(in: .whitespacesAndNewlines)
    device = try installation.device("phone")
    let rows = (1...20_000).map { "{\"channel\":\"\(channel)\",\"n\":\($0)}\n" }
    try rows.joined().write(to: list, atomically: true, encoding: .utf8)
  }

  private func listen() throws -> Companion {
    let listener = try device.listen(["--topic", Installation.topic, "--channel", channel])
    _ = try listener.first("subscribed")
    return listener
  }

  /// The numbers of the broadcasts that were accepted until the service was killed, one after the other.
  private func broadcastUntilKilled(after count: Int) throws -> [Int] {
    let sender = try Companion(
      installation.apus,
      [
        "send", "--to", "localhost:\(installation.providerPort)", "--data",
        installation.directory.path, "--tokens", list.path, "--topic", Installation.topic,
        "--concurrency", "1", "--expiration", "+1h", "--payload",
        #"{"aps":{"timestamp":1,"event":"update","content-state":{}},"n":"{{n:json}}"}"#, "--json",
      ], name: "apus send")
    _ = try sender.wait(for: "\(count) accepted rows") { lines in
      lines.count { $0["outcome"] as? String == "accepted" } >= count ? true : nil
    }
    installation.service?.stop(SIGKILL)
    sender.stop(SIGKILL)
    return try sender.wait(for: "rows") { lines in
      lines.filter { $0["outcome"] as? String == "accepted" }.compactMap { $0["row"] as? Int }
    }
  }

  @Test("The newest accepted one, or a newer one, reaches a device that connects after kill -9")
  func killed() throws {
    try listen().stop()
    for count in [1, 40, 400] {
      let accepted = try broadcastUntilKilled(after: count)
      let last = try #require(accepted.max())
      #expect(last >= count)
      try installation.start()
      let listener = try listen()
      let shown = try listener.first("notification")
      let number = try #require((shown["payload"] as? [String: Any])?["n"] as? Int)
      // A later one may have been written, and its answer lost.
      #expect(number >= last, "\(number) instead of \(last)")
      listener.stop()
    }
  }
}
