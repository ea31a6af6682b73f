import Foundation
import Testing

@Suite("Commands and the running service", .serialized, .timeLimit(.minutes(30)))
struct RunningServiceTests {
  private func run(_ arguments: [String]) throws -> (code: Int, text: String) {
    try Programs.attempt(arguments, .both)
  }

  @Test("Commands find the listeners by the data directory alone, while the service runs")
  func found() throws {
    let installation = try Installation()
    try installation.start()
    let data = ["--data", installation.directory.path]
    let issued = try Programs.json(
      Programs.run(installation.apus, ["device", "add", "--json"] + data))
    let listener = try Companion(
      installation.apus,
      [
        "listen", "--json", "--certificate", #require(issued["certificate_file"] as? String),
        "--key", #require(issued["key_file"] as? String),
      ] + data, name: "apus listen")
    let token = try #require(try listener.first("token")["token"] as? String)
    let sent = try run(["send", "--token", token, "--alert", "Found"] + data)
    #expect(sent.code == 0, "\(sent.text)")
    let shown = try listener.first("notification")
    let payload = shown["payload"] as? [String: [String: String]]
    #expect(payload == ["aps": ["alert": "Found"]], "\(shown)")
    let doctor = try run(["doctor"] + data)
    #expect(doctor.code == 0 && doctor.text.contains("localhost resolves"), "\(doctor.text)")
    let pem = try installation.providerCertificate()
    let feedback = try run(["feedback", "--certificate", pem, "--certificate-key", pem] + data)
    #expect(feedback.code == 0, "\(feedback.text)")
    listener.stop()

    // A killed service leaves the file behind, and nobody believes it.
    let file = installation.directory.appending(path: "service.addresses")
    let text = try String(contentsOf: file, encoding: .utf8)
    #expect(text.contains("http2 production 127.0.0.1:\(installation.providerPort)\n"))
    #expect(text.contains("name localhost\nname 127.0.0.1\nname ::1\n"), "\(text)")
    installation.service?.stop(SIGKILL)
    #expect(FileManager.default.fileExists(atPath: file.path))
    let gone = try run(["send", "--token", token, "--alert", "x"] + data)
    #expect(gone.code == 3 && gone.text.contains("127.0.0.1:2197"), "\(gone.text)")

    try installation.start()
    installation.service?.stop()
    #expect(!FileManager.default.fileExists(atPath: file.path))
  }

  @Test("apus listen ends, and says why, when its device is retired")
  func retiredListener() throws {
    let installation = try Installation()
    try installation.start()
    let data = ["--data", installation.directory.path]
    let issued = try Programs.json(
      Programs.run(installation.apus, ["device", "add", "--json"] + data))
    let listen =
      [
        "listen", "--json", "--topic", Installation.topic, "--certificate",
        try #require(issued["certificate_file"] as? String), "--key",
        try #require(issued["key_file"] as? String),
      ] + data
    let listener = try Companion(installation.apus, listen, name: "apus listen")
    _ = try listener.first("connected")
    let id = try #require(issued["device_id"] as? String)
    #expect(try run(["device", "retire", id] + data).code == 0)
    for _ in 0..<600 where listener.status == nil { usleep(50_000) }
    #expect(listener.status == 1)
    let again = try run(listen)
    #expect(again.code == 1 && again.text.contains("is retired"), "\(again)")
  }

  @Test("A port in use is an error with exit code 3, even one that another service shares")
  func portInUse() throws {
    let installation = try Installation()
    try installation.start(["--workers", "2"])
    let other = try Installation()
    for workers in ["1", "2"] {
      let (code, text) = try run([
        "serve", "--data", other.directory.path, "--workers", workers, "--http2-listen",
        "127.0.0.1:\(installation.providerPort)", "--courier-listen", "off",
        "--http2-development-listen", "off", "--courier-development-listen", "off",
        "--gateway-listen", "off", "--gateway-development-listen", "off", "--feedback-listen",
        "off", "--feedback-development-listen", "off",
      ])
      #expect(code == 3 && text.contains("address already in use"), "\(text)")
    }
  }
}
