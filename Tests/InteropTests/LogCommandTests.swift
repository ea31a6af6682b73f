import Foundation
import Testing

/// `apus log` as a user runs it, on the data of a stopped service or beside a running one.
@Suite("apus log", .serialized)
struct LogCommandTests {
  /// A stopped service: two notifications were delivered, one is stored, one request was rejected. Tests do not change
  /// it.
  private struct Past: @unchecked Sendable {
    let installation: Installation
    let token: String
    let device: String
    /// The ids in the responses, in the order of the pushes.
    let ids: [String]
  }

  private static let past = Result { try makePast() }

  private static func makePast() throws -> Past {
    let installation = try Installation()
    try installation.start()
    let device = try installation.device("phone")
    let token = try device.connect()
    var ids: [String] = []
    for n in 1...2 {
      ids.append(try push(n, to: token, priority: n == 1 ? 10 : 5, in: installation))
      _ = try device.shown(atLeast: n)
    }
    device.disconnect()
    ids.append(try push(3, to: token, priority: 10, in: installation))
    // Well-formed, but issued by no service.
    _ = try? push(4, to: String(repeating: "ab", count: 32), priority: 10, in: installation)
    // To the device, but for an app that there is not.
    _ = try? push(5, to: token, priority: 10, topic: "com.example.none", in: installation)
    installation.service?.stop()
    let lines = try log(["--id", ids[2]], in: installation)
    guard let name = lines.first?["device"] as? String else { throw Trouble("no line") }
    return Past(installation: installation, token: token, device: name, ids: ids)
  }

  private static func push(
    _ n: Int, to token: String, priority: Int, topic: String = Installation.topic,
    in installation: Installation
  ) throws -> String {
    let sent = try Programs.json(
      Programs.run(
        installation.apus,
        [
          "send", "--to", "localhost:\(installation.providerPort)", "--data",
          installation.directory.path, "--token", token, "--priority", "\(priority)",
          "--topic", topic,
          "--expiration", "+1h", "--payload", #"{"aps":{"alert":"\#(n)"},"n":\#(n)}"#, "--json",
        ]))
    guard let id = sent["apns_id"] as? String ?? sent["id"] as? String else {
      throw Trouble("no id in \(sent)")
    }
    return id
  }

  /// The printed JSON objects.
  private static func log(
    _ arguments: [String], in installation: Installation
  ) throws -> [[String: Any]] {
    try text(arguments + ["--json"], in: installation).split(separator: "\n").map {
      try Programs.json($0)
    }
  }

  /// Standard output and error.
  private static func text(_ arguments: [String], in installation: Installation) throws -> String {
    try Programs.run(
      URL(filePath: "/bin/sh"),
      [
        "-c", #"exec timeout 60 "$0" "$@" 2>&1"#, installation.apus.path, "log", "--data",
        installation.directory.path,
      ] + arguments)
  }

  private static let delivered = ["Received by APNs", "Sent to Device", "Delivered to Device"]
  private static let stored = ["Received by APNs", "Stored - Device Offline"]

  private func states(_ arguments: [String]) throws -> [String] {
    try Self.log(arguments, in: Self.past.get().installation).compactMap { $0["state"] as? String }
  }

  @Test("A rejected notification has no lines, but its id gives the explanation")
  func refusals() throws {
    let past = try Self.past.get()
    let refused = try Self.log(["--refused"], in: past.installation)
    #expect(refused.count == 2)
    let line = try #require(refused.first)
    #expect(line["state"] as? String == "Refused")
    #expect(line["reason"] as? String == "BadDeviceToken")
    #expect(line["topic"] as? String == "com.example.app")
    #expect(line["token"] as? String == "abababab…")
    #expect((line["explanation"] as? String)?.contains("did not issue") == true, "\(line)")
    let id = try #require(line["id"] as? String)
    let found = try Self.log(["--id", id], in: past.installation)
    #expect(found.count == 1 && found.first?["id"] as? String == id)
    let text = try Self.text(["--id", id], in: past.installation)
    #expect(text.contains("Refused - BadDeviceToken") && text.contains(id))
    #expect(try Self.log(["--refused", "--until", "1h"], in: past.installation).isEmpty)
    #expect(
      try Self.log(["--refused", "--topic", "com.example.other"], in: past.installation).isEmpty)
    let trouble = #expect(throws: (any Error).self) {
      try Self.text(["--refused", "--follow"], in: past.installation)
    }
    #expect("\(String(describing: trouble))".contains("never accepted"))
  }

  // MARK: Queries

  @Test("By id: the states of a notification in order, with reasons")
  func id() throws {
    let past = try Self.past.get()
    #expect(try states(["--id", past.ids[0]]) == Self.delivered)
    #expect(try states(["--id", past.ids[2]]) == Self.stored)
    let line = try #require(Self.log(["--id", past.ids[2]], in: past.installation).last)
    #expect(line["cause"] as? String == "the device is not connected")
    #expect(line["topic"] as? String == Installation.topic)
    #expect(line["environment"] as? String == "production")
    #expect(line["id"] as? String == past.ids[2])
    #expect(line["priority"] as? Int == 10)
    #expect(line["interface"] as? String == "http2")
    #expect((line["token"] as? String)?.hasPrefix(String(past.token.prefix(8))) == true)
    #expect(line["token"] as? String != past.token)
  }

  @Test("By unique id")
  func uniqueID() throws {
    let past = try Self.past.get()
    let line = try #require(Self.log(["--id", past.ids[1]], in: past.installation).first)
    let unique = try #require(line["unique_id"] as? String)
    #expect(unique != past.ids[1])
    #expect(try states(["--unique-id", unique]) == Self.delivered)
    #expect(try states(["--unique-id", past.ids[1]]) == [])
  }

  @Test("By token, by device and by topic")
  func places() throws {
    let past = try Self.past.get()
    let all = Self.delivered + Self.delivered + Self.stored
    #expect(try states(["--token", past.token]) == all + ["Refused"])
    #expect(try states(["--device", past.device]) == all + ["Refused"])
    #expect(try states(["--topic", Installation.topic]) == all)
    #expect(try states([]) == all)
    #expect(try states(["--device", "0123456789abcdef"]) == [])
    #expect(try states(["--topic", Installation.topic + ".voip"]) == [])
  }

  @Test("By a device's name: also what was refused, and what waits is marked")
  func timeline() throws {
    let past = try Self.past.get()
    let lines = try Self.log(["--device", "phone"], in: past.installation)
    #expect(
      lines.compactMap { $0["state"] as? String }
        == Self.delivered + Self.delivered + Self.stored + ["Refused"])
    #expect(lines.allSatisfy { $0["device"] as? String == past.device })
    #expect(lines.allSatisfy { $0["device_name"] as? String == "phone" }, "\(lines)")
    #expect(lines.compactMap { $0["waiting"] as? Bool } == [true])
    #expect(lines[7]["waiting"] as? Bool == true)
    #expect(lines[8]["reason"] as? String == "TopicDisallowed", "\(lines[8])")
    #expect((lines[8]["explanation"] as? String)?.isEmpty == false)
    let times = lines.compactMap { $0["time"] as? String }
    #expect(times == times.sorted())
    let text = try Self.text(["--token", past.token], in: past.installation).split(separator: "\n")
    #expect(text.count == 9 && text[7].contains("WAITING: Stored - Device Offline"), "\(text)")
    #expect(
      text[8].contains("Refused - TopicDisallowed") && text[8].contains("\(past.device) phone"))
    #expect(
      try Self.log(["--device", "phone", "--state", "stored"], in: past.installation).count == 1)
    let trouble = #expect(throws: (any Error).self) {
      try Self.text(["--device", "nobody"], in: past.installation)
    }
    #expect("\(String(describing: trouble))".contains("no device has the id or the name"))
  }

  @Test("By state, given by its first words, once or repeatedly")
  func state() throws {
    #expect(try states(["--state", "stored"]) == ["Stored - Device Offline"])
    let two = try states(["--state", "delivered-to-device", "--state", "stored"])
    #expect(two == ["Delivered to Device", "Delivered to Device", "Stored - Device Offline"])
    #expect(try states(["--state", "discarded"]) == [])
  }

  @Test("By time, limited to the newest lines")
  func time() throws {
    #expect(try states(["--since", "1h"]).count == 8)
    #expect(try states(["--until", "1h"]) == [])
    #expect(
      try states(["--since", "2001-01-01T00:00:00Z", "--until", "2001-01-02T00:00:00Z"]) == [])
    #expect(try states(["--limit", "2"]) == Self.stored)
    let past = try Self.past.get()
    #expect(try states(["--limit", "1", "--id", past.ids[0]]) == [Self.delivered[2]])
  }

  @Test("As text: one line each, with time, label, topic, id, device and reason")
  func lines() throws {
    let past = try Self.past.get()
    let text = try Self.text(["--id", past.ids[2]], in: past.installation)
    let lines = text.split(separator: "\n")
    #expect(lines.count == 2)
    for line in lines {
      #expect(line.contains(Installation.topic) && line.contains(past.ids[2]))
      #expect(line.contains(past.device))
    }
    #expect(lines.last?.hasSuffix("the device is not connected") == true)
  }

  // MARK: Counters

  @Test("--counts: for each topic, accepted is the sum of ended and pending")
  func counts() throws {
    let past = try Self.past.get()
    let counts = try Self.log(["--counts"], in: past.installation)
    let topic = try #require(counts.first { $0["topic"] as? String == Installation.topic })
    #expect(counts.count == 1)
    #expect(topic["accepted"] as? Int == 3)
    #expect(topic["ended"] as? Int == 2)
    #expect(topic["pending"] as? Int == 1)
    #expect(topic["balanced"] as? Bool == true)
    let states = topic["states"] as? [String: Int]
    #expect(
      states == [
        "Received by APNs": 3, "Sent to Device": 2, "Delivered to Device": 2,
        "Stored - Device Offline": 1,
      ])
    let text = try Self.text(["--counts", "--topic", Installation.topic], in: past.installation)
    #expect(text.hasPrefix("\(Installation.topic), production\n"))
    #expect(text.contains("Accepted") && text.contains("Delivered to Device"))
  }

  @Test(
    "--counts --by groups the counters, and each group is balanced",
    arguments: [
      ("priority", "priority", ["10": 2, "5": 1]), ("push-type", "push_type", ["alert": 3]),
    ])
  func parts(by: String, key: String, accepted: [String: Int]) throws {
    let past = try Self.past.get()
    let parts = try Self.log(["--counts", "--by", by], in: past.installation)
    var found: [String: Int] = [:]
    for part in parts {
      let name = (part[key] as? String) ?? (part[key] as? Int).map(String.init) ?? "none"
      found[name] = part["accepted"] as? Int
      #expect(part["balanced"] as? Bool == true)
      #expect(part["topic"] as? String == Installation.topic)
    }
    #expect(found == accepted)
    let text = try Self.text(["--counts", "--by", by], in: past.installation)
    #expect(text.contains(by == "priority" ? "production, priority 5" : "production, alert"))
  }

  @Test("--counts --by reason: rejected requests")
  func reasons() throws {
    let past = try Self.past.get()
    let reasons = try Self.log(["--counts", "--by", "reason"], in: past.installation)
    #expect(reasons.count == 2)
    #expect(reasons.first?["reason"] as? String == "BadDeviceToken")
    #expect(reasons.first?["status"] as? Int == 400)
    #expect(reasons.first?["requests"] as? Int == 1)
    let text = try Self.text(["--counts", "--by", "reason"], in: past.installation)
    #expect(text.contains("400 BadDeviceToken"))
  }

  // MARK: Beside a running service

  @Test("--counts are current while the service runs, and later those of the store")
  func liveCounts() throws {
    let installation = try Installation()
    try installation.start()
    let device = try installation.device("phone")
    let token = try device.connect()
    for n in 1...3 {
      _ = try Self.push(n, to: token, priority: 10, in: installation)
      // The provider has its response, but the store may get the counters up to a second later.
      let counts = try #require(try Self.log(["--counts"], in: installation).first)
      #expect(counts["accepted"] as? Int == n)
      #expect(counts["live"] as? Bool == true)
    }
    let parts = try Self.log(["--counts", "--by", "priority"], in: installation)
    #expect(parts.map { $0["priority"] as? Int } == [10])
    #expect(try Self.text(["--counts"], in: installation).contains("Current"))
    installation.service?.stop()
    let counts = try #require(try Self.log(["--counts"], in: installation).first)
    #expect(counts["accepted"] as? Int == 3 && counts["live"] as? Bool == false)
    #expect(try Self.text(["--counts"], in: installation).contains("From the store"))
  }

  @Test("--follow prints existing lines, then new ones, and ends when interrupted")
  func follow() throws {
    let installation = try Installation()
    try installation.start()
    let device = try installation.device("phone")
    let token = try device.connect()
    let first = try Self.push(1, to: token, priority: 10, in: installation)
    _ = try device.shown(atLeast: 1)
    let log = try Companion(
      installation.apus, ["log", "--data", installation.directory.path, "--follow", "--json"],
      name: "apus log --follow")
    func wait(_ id: String) throws {
      _ = try log.wait(for: "the end of \(id)") { lines in
        lines.first {
          $0["id"] as? String == id && $0["state"] as? String == "Delivered to Device"
        }
      }
    }
    try wait(first)
    let second = try Self.push(2, to: token, priority: 10, in: installation)
    try wait(second)
    // Each line is printed once.
    let states = try log.wait(for: "lines") { lines in
      lines.filter { $0["id"] as? String == first }.compactMap { $0["state"] as? String }
    }
    #expect(states == Self.delivered)
    log.stop(SIGINT)
    installation.service?.stop()
  }

  // MARK: Errors

  @Test(
    "An error has its exit code and a message",
    arguments: [
      (["--id", "x"], 2, "--id"), (["--token", "abc"], 2, "--token"),
      (["--device", "12"], 4, "16 hexadecimal digits"), (["--state", "lost"], 2, "is not a label"),
      (["--since", "yesterday"], 2, "neither a span"), (["--limit", "0"], 2, "--limit"),
      (["--topic", "com.example.none"], 4, "has no app"),
      (["--token", String(repeating: "ab", count: 32)], 1, "did not issue the token"),
      (["--counts", "--follow"], 2, "--counts"), (["--by", "priority"], 2, "--counts"),
      (["--counts", "--by", "colour"], 2, "is not one of topic, push-type, priority, reason"),
      (
        ["--counts", "--by", "reason", "--topic", Installation.topic], 2,
        "not counted per topic"
      ), (["what"], 2, "what"), (["--verbose"], 2, "--verbose"),
    ] as [([String], Int, String)])
  func mistakes(arguments: [String], code: Int, words: String) throws {
    let past = try Self.past.get()
    let trouble = #expect(throws: Trouble.self) {
      try Self.text(arguments, in: past.installation)
    }
    #expect(trouble?.description.contains("ended with \(code)") == true, "\(arguments)")
    #expect(trouble?.description.contains(words) == true, "\(arguments)")
  }

  @Test("A directory without a service and one without a ledger have different errors")
  func directories() throws {
    let installation = try Installation()
    let fresh = #expect(throws: Trouble.self) { try Self.text([], in: installation) }
    #expect(fresh?.description.contains("ended with 4") == true)
    #expect(fresh?.description.contains("has no ledger") == true)
    let nowhere = #expect(throws: Trouble.self) {
      try Programs.run(
        URL(filePath: "/bin/sh"),
        [
          "-c", #"exec timeout 60 "$0" "$@" 2>&1"#, installation.apus.path, "log", "--data",
          installation.directory.path + "/nowhere",
        ])
    }
    #expect(nowhere?.description.contains("ended with 4") == true)
    #expect(nowhere?.description.contains("contains no Apus service") == true)
  }
}
