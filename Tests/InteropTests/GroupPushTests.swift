import Foundation
import Testing

@Suite("Notifications to many devices", .serialized, .timeLimit(.minutes(30)))
struct GroupPushTests {
  private static let devices = 400

  private func apus(_ installation: Installation, _ arguments: [String]) throws -> [String: Any] {
    let words = arguments + ["--data", installation.directory.path, "--json"]
    return try Programs.json(Programs.run(installation.apus, words))
  }

  @Test("After kill -9 in the middle, each device has the notification exactly once")
  func killed() throws {
    let installation = try Installation()
    try installation.start(["--workers", "2"])
    let fleet = try RunningFleet(installation, devices: Self.devices)
    _ = try fleet.waitForTokens()
    let socket = installation.directory.appending(path: "admin.sock").path
    var unfinished = 0
    // On a busy machine a kill may come when the job is over: then there are more.
    for (round, milliseconds) in [0, 2, 4, 8, 16, 0, 0, 0, 0, 0, 0, 0].enumerated() {
      if round >= 5, unfinished > 0 { break }
      // The kill follows the response, before the job can be over.
      let push =
        #"{"all":true,"topic":"\#(Installation.topic)","payload":{"aps":{},"n":\#(round)}}"#
      let process = try #require(installation.service).identifier
      let made = try Programs.json(
        Programs.run(
          URL(filePath: "/bin/sh"),
          [
            "-c",
            #"curl -s --unix-socket "$1" -H content-type:application/json -d "$2" "#
              + #"http://localhost/v1/notifications; [ "$3" = 0 ] || sleep "0.0$3"; kill -KILL "$4""#,
            "sh", socket, push,
            milliseconds == 0 ? "0" : "\(milliseconds / 10)\(milliseconds % 10)", "\(process)",
          ]))
      let job = try #require(made["job"] as? String)
      installation.service?.stop(SIGKILL)
      let end = installation.directory.appending(path: "jobs/\(job).end").path
      if !FileManager.default.fileExists(atPath: end) { unfinished += 1 }
      try installation.start(["--workers", "2"])

      var found: [String: Any] = [:]
      for _ in 0..<600 where found["ended"] == nil {
        found = try apus(installation, ["job", "show", job])
        if found["ended"] == nil { usleep(100_000) }
      }
      let outcomes = found["outcomes"] as? [String: Int] ?? [:]
      #expect(outcomes["accepted"] == Self.devices, "\(found)")
      let expected = Self.devices * (round + 1)
      try fleet.wait(for: "\(expected) notifications") { status in
        (status["received"] as? Int ?? 0) >= expected
          && status["connected"] as? Int == Self.devices
      }
      // Whatever was sent twice is there by now: the devices have drained.
      usleep(300_000)
      try fleet.wait(for: "no more than that") { $0["received"] as? Int == expected }
    }
    #expect(unfinished > 0, "no job was killed in its middle")
  }

  @Test("Devices by name and tag, the results of a job, and what is refused")
  func command() throws {
    let installation = try Installation()
    try installation.start()
    let phone = try installation.device("phone")
    _ = try phone.connect()
    let listed = try apus(installation, ["send", "--all", "--payload", #"{"aps":{},"n":1}"#])
    #expect(listed["state"] as? String == "done" && listed["devices"] as? Int == 1)
    #expect(try phone.shown(atLeast: 1) == [1])
    let job = try #require(listed["job"] as? String)
    let row = try apus(installation, ["job", "results", job])
    let device = try #require(row["device"] as? String)
    #expect(row["outcome"] as? String == "accepted")

    let labelled = try apus(
      installation, ["device", "set", "phone", "--name", "kitchen", "--tag", "floor=2"])
    #expect(labelled["device"] as? String == device)
    for (number, selector) in [
      ["--device", "kitchen"], ["--tag", "floor"], ["--device", device],
    ]
    .enumerated() {
      let sent = try apus(
        installation, ["send", "--payload", #"{"aps":{},"n":\#(number + 2)}"#] + selector)
      #expect((sent["outcomes"] as? [String: Int])?["accepted"] == 1, "\(sent)")
      #expect(try phone.shown(atLeast: number + 2).last == number + 2)
    }
    #expect(try apus(installation, ["job", "results", job])["name"] as? String == "kitchen")

    let data = ["--data", installation.directory.path]
    for (arguments, code, text) in [
      (["send", "--tag", "floor=9", "--alert", "Hi"], 4, "floor=9"),
      (["send", "--device", "attic", "--alert", "Hi"], 4, "attic"),
      (["send", "--all", "--tag", "floor", "--alert", "Hi"], 2, "--tag and --all"),
      (["send", "--all", "--id", UUID().uuidString, "--alert", "Hi"], 2, "--id"),
      (["send", "--all", "--topic", "com.example.none", "--alert", "Hi"], 2, "TopicDisallowed"),
      (["job", "show", UUID().uuidString], 4, "no job"),
      (["job", "cancel", job], 4, "is over"),
    ] as [([String], Int, String)] {
      let run = try Programs.attempt(arguments + data, .errors)
      #expect(run.code == code && run.text.contains(text), "\(arguments): \(run)")
    }
  }
}
