import Foundation
import Testing

/// `apus listen` without --json, which shows a notification as the user of the device would see it.
@Suite("The text of apus listen", .serialized, .timeLimit(.minutes(30)))
struct ListenTextTests {
  private static let payload =
    #"{"aps":{"alert":{"title-loc-key":"TITLE","title-loc-args":["Ann"],"subtitle":"Tonight","#
    + #""loc-key":"PLAY","loc-args":["Ann","chess"],"action-loc-key":"OPEN","#
    + #""launch-image":"Start.png"},"badge":3},"game":17}"#
  private static let strings =
    #"{"TITLE":"News from %@","PLAY":"%2$@ with %1$@","OPEN":"Join","UNUSED":"Not shown"}"#

  /// The arguments of `apus listen` for a new device.
  private func arguments(
    _ installation: Installation, topic: String = Installation.topic, count: Int = 1
  ) throws -> [String] {
    let device = try Programs.json(
      Programs.run(
        installation.apus, ["device", "add", "--data", installation.directory.path, "--json"]))
    let files = try ["certificate_file", "key_file"].map { try #require(device[$0] as? String) }
    return [
      "listen", "--to", "localhost:\(max(1, installation.courierPort))", "--authority",
      installation.authority, "--certificate", files[0], "--key", files[1], "--topic",
      topic, "--count", "\(count)",
    ]
  }

  /// What it prints about one notification, without the frame of the box.
  private func shown(_ installation: Installation, _ options: [String]) throws -> [String] {
    let text = try output(installation, [Self.payload], options)
    return text.split(separator: "\n").filter { $0.hasPrefix("│ ") }.map { String($0.dropFirst(2)) }
  }

  /// What it prints about notifications.
  private func output(
    _ installation: Installation, _ payloads: [String], topic: String = Installation.topic,
    _ options: [String] = []
  ) throws -> String {
    let process = Process()
    process.executableURL = installation.apus
    process.arguments =
      try arguments(installation, topic: topic, count: payloads.count) + options
    process.standardInput = FileHandle.nullDevice
    let output = try Programs.start(process)
    defer { process.terminate() }
    // The first line is the app's topic and token.
    var line = Data()
    while line.last != UInt8(ascii: "\n") {
      let byte = try #require(try output.read(upToCount: 1), "it ended without a token")
      line += byte
    }
    let words = String(decoding: line, as: UTF8.self).split(whereSeparator: \.isWhitespace)
    try #require(words.count == 2 && words[0] == topic)
    for payload in payloads {
      try Programs.run(
        installation.apus,
        [
          "send", "--to", "localhost:\(installation.providerPort)", "--data",
          installation.directory.path, "--topic", topic, "--token", String(words[1]), "--payload",
          payload,
        ] + (topic == Installation.topic ? [] : ["--push-type", "liveactivity"]))
    }
    let text = String(decoding: try output.readToEnd() ?? Data(), as: UTF8.self)
    process.waitUntilExit()
    #expect(process.terminationStatus == 0)
    return text
  }

  @Test("What happens to a Live Activity is a line below its push")
  func activity() throws {
    let installation = try Installation()
    try installation.start()
    let topic = "\(Installation.topic).push-type.liveactivity"
    let text = try output(
      installation,
      [
        #"{"aps":{"timestamp":9,"event":"start","content-state":{"score":0},"stale-date":1,"#
          + #""attributes-type":"Match","attributes":{},"alert":{"title":"Kick-off"}}}"#,
        #"{"aps":{"timestamp":8,"event":"update","content-state":{"score":1}}}"#,
        #"{"aps":{"timestamp":9,"event":"end","content-state":{"score":2}}}"#,
      ], topic: topic)
    let lines = text.split(separator: "\n").filter { $0.hasPrefix(topic) }
    let expected = [
      #"1 (Match) started: {"score":0}"#, "1 (Match) stale",
      "dropped: aps.timestamp is older than 9, the timestamp of the content that the activity shows",
      #"1 (Match) ended: {"score":2}"#,
    ]
    #expect(lines.map(String.init) == expected.map { "\(topic)  Live Activity \($0)" })
  }

  @Test("Texts are looked up by their keys in the file of --strings, and filled in")
  func localized() throws {
    let installation = try Installation()
    try installation.start()
    let file = installation.directory.appending(path: "strings.json")
    try Self.strings.write(to: file, atomically: true, encoding: .utf8)
    let lines = try shown(installation, ["--strings", file.path])
    #expect(
      lines == [
        "News from Ann", "Tonight", "chess with Ann", "[Join]", "launch image: Start.png",
        "badge 3", "game: 17",
      ])
  }

  @Test("Without --strings, the keys are shown")
  func withoutStrings() throws {
    let installation = try Installation()
    try installation.start()
    let lines = try shown(installation, [])
    #expect(
      lines == [
        "TITLE", "Tonight", "PLAY", "[OPEN]", "launch image: Start.png", "badge 3", "game: 17",
      ])
  }

  @Test(
    "A file of --strings that is not a JSON object is named",
    arguments: ["[]", #""A" = "B";"#])
  func invalid(text: String) throws {
    let installation = try Installation()
    let file = installation.directory.appending(path: "strings.json")
    try text.write(to: file, atomically: true, encoding: .utf8)
    let said = try Programs.run(
      URL(filePath: "/bin/sh"),
      [
        "-c", #"timeout 60 "$0" "$@" 2>&1; [ $? = 2 ]"#, installation.apus.path,
      ] + arguments(installation) + ["--strings", file.path])
    #expect(said.contains("\(file.path) is not a JSON object with text values"), "\(said)")
  }
}
