import Foundation
import Testing

@Suite("curl, as the README has it", .serialized)
struct CurlTests {
  /// The command of the README, with its words in capitals filled in.
  ///
  /// Read from the README itself: a command that is printed there and does not work is a defect of this project.
  static func readmeCommand(_ installation: Installation, token: String) throws -> [String] {
    let readme = try String(
      contentsOf: Programs.root.appending(path: "README.md"), encoding: .utf8)
    guard let start = readme.range(of: "curl --http2"),
      let end = readme.range(of: "\n\n", range: start.upperBound..<readme.endIndex)
        ?? readme.range(of: "\n```", range: start.upperBound..<readme.endIndex)
    else { throw Trouble("the README has no curl command") }
    var command = String(readme[start.lowerBound..<end.lowerBound])
    if let fence = command.range(of: "\n```") { command = String(command[..<fence.lowerBound]) }
    for (word, value) in [
      ("AUTHORITY", installation.authority), ("TOPIC", Installation.topic), ("TOKEN", token),
      ("localhost:2197", "localhost:\(installation.providerPort)"),
    ] {
      command = command.replacingOccurrences(of: "$\(word)", with: value)
      command = command.replacingOccurrences(of: word, with: value)
    }
    return ["-c", command.replacingOccurrences(of: "curl ", with: "curl --silent --show-error ")]
  }

  @Test("The printed command delivers a push", .timeLimit(.minutes(2)))
  func readme() throws {
    let installation = try Installation()
    try installation.start()
    let device = try installation.device("phone")
    let token = try device.connect()
    var shell = try Self.readmeCommand(installation, token: token)
    // `apus jwt` is on the reader's PATH; here it is beside the tests.
    shell[1] =
      "export APUS_DATA='\(installation.directory.path)'; "
      + "PATH=\"\(installation.apus.deletingLastPathComponent().path):$PATH\"; " + shell[1]
    #expect(try Programs.run(URL(filePath: "/bin/bash"), shell) == "")
    let shown = try device.listener?.first("notification")
    let aps = (shown?["payload"] as? [String: Any])?["aps"] as? [String: Any]
    #expect(aps?["alert"] as? String == "Hello from Apus")
  }
}

@Suite("What was accepted survives the death of the service", .serialized)
struct DurabilityTests {
  @Test(
    "A notification for an absent device is delivered after kill -9", .timeLimit(.minutes(2)),
    arguments: [1, 2])
  func killed(workers: Int) throws {
    let installation = try Installation()
    try installation.start(["--workers", "\(workers)"])
    let device = try installation.device("phone")
    let token = try device.connect()
    device.disconnect()
    try send(1, lifetimeSeconds: 3600, token, installation)
    // Newer, and not to be stored: it must not take the first one's place.
    try send(2, lifetimeSeconds: nil, token, installation)
    installation.service?.stop(SIGKILL)

    try installation.start(["--workers", "\(workers)"])
    _ = try device.connect()
    #expect(try device.shown(atLeast: 1) == [1])
    // One that comes afterwards is the second, and nothing came between.
    try send(3, lifetimeSeconds: 3600, token, installation)
    #expect(try device.shown(atLeast: 2) == [1, 3])
  }

  private func send(
    _ n: Int, lifetimeSeconds: Int?, _ token: String, _ installation: Installation
  ) throws {
    let expiration = lifetimeSeconds.map { Int(Date().timeIntervalSince1970) + $0 } ?? 0
    try Programs.run(
      installation.apus,
      [
        "send", "--to", "localhost:\(installation.providerPort)", "--data",
        installation.directory.path, "--token", token, "--expiration", "\(expiration)",
        "--payload", #"{"aps":{"alert":"Number \#(n)"},"n":\#(n)}"#, "--json",
      ])
  }
}
