import ApusAdmin
import ApusDirectory
import ApusJobs
import ApusLog
import ApusModel
import ApusTesting
import ApusWire
import Foundation
import Testing

@testable import ApusServer

@Suite("Pushes to devices by name and tag", .serialized, .timeLimit(.minutes(10)))
struct GroupPushTests {
  private static func options(isEphemeral: Bool = true) -> TestService.Options {
    .init {
      $0.isEphemeral = isEphemeral
      $0.admin = AdminConfiguration(hasSocket: true, version: "1.2.3")
    }
  }

  private static func label(
    _ device: DeviceID, _ name: String?, _ tags: [String], in service: TestService
  ) throws {
    let labels = try #require(
      DeviceLabels(
        name: name.flatMap { DeviceName($0) }, tags: tags.compactMap { DeviceTag($0) }))
    try LabelRegister(service.directory.data).change { _ in [device: labels] }
  }

  /// A device with the app, that was connected once.
  private static func known(_ service: TestService) throws -> TestDevice {
    let device = try service.connect()
    try device.enable(TestDirectory.topic)
    _ = try device.token()
    device.client.tls.close()
    return device.device
  }

  private static func ask(
    _ service: TestService, _ method: String, _ path: String, _ body: String? = nil,
    key: String? = nil
  ) throws -> (status: Int, json: JSONValue) {
    let text = try text(service, path, method, body, key: key)
    let lines = text.split(separator: "\n")
    let bytes = Array(lines.dropLast().joined(separator: "\n").utf8)
    return (
      try #require(lines.last.flatMap { Int($0) }),
      (try? JSONValue(parsing: bytes.span)) ?? .null
    )
  }

  /// The response, with its status in the last line.
  private static func text(
    _ service: TestService, _ path: String, _ method: String = "GET", _ body: String? = nil,
    key: String? = nil
  ) throws -> String {
    let socket = service.directory.data.adminSocket
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments =
      [
        "curl", "--silent", "--max-time", "60", "--request", method, "--unix-socket", socket,
        "--write-out", "\n%{http_code}", "http://localhost\(path)",
      ] + (key.map { ["--header", "idempotency-key: \($0)"] } ?? [])
      + (body.map { ["--header", "content-type: application/json", "--data-binary", $0] } ?? [])
    let output = Pipe()
    process.standardOutput = output
    try process.run()
    let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    process.waitUntilExit()
    return text
  }

  private static func awaitEnd(_ service: TestService, _ job: String) throws -> JSONValue {
    for _ in 0..<1000 {
      let json = try ask(service, "GET", "/v1/jobs/\(job)").json
      if json["ended"] != nil { return json }
      usleep(20_000)
    }
    throw CancellationError()
  }

  private static let payload = #""payload":{"aps":{"alert":"Hi"}}"#

  @Test("A tag reaches connected and offline devices; the others have their reason")
  func tag() throws {
    let service = try TestService(nil, Self.options())
    let connected = try service.connect()
    try connected.enable(TestDirectory.topic)
    _ = try connected.token()
    let offline = try Self.known(service)
    let bare = try service.connect()
    let retired = try Self.known(service)
    for (index, device) in [connected.device, offline, bare.device, retired].enumerated() {
      try Self.label(device.id, "d\(index)", ["floor=2"], in: service)
    }
    try Self.label(DeviceID(99), nil, ["floor=3"], in: service)
    try service.directory.data.retire(retired.id, nowSeconds: TestDirectory.nowSeconds)
    service.service.reload()

    let made = try Self.ask(
      service, "POST", "/v1/notifications",
      #"{"tags":["floor=2"],"topic":"com.example.app",\#(Self.payload)}"#)
    #expect(made.status == 202 && made.json["devices"]?.integer == 3, "\(made)")
    let job = try #require(made.json["job"]?.string)
    // In flight until the device acknowledges, or for 50 ms.
    let notification = try connected.notification()
    #expect(notification[3] == Array(#"{"aps":{"alert":"Hi"}}"#.utf8))
    try connected.acknowledge(notification)
    let end = try Self.awaitEnd(service, job)
    #expect(end["outcomes"]?["accepted"]?.integer == 2 && end["outcomes"]?["no_app"]?.integer == 1)
    #expect(end["state"]?.string == "done" && end["to"]?.string == "tag floor=2")

    let metrics = try Self.text(service, "/metrics")
    #expect(metrics.contains("apus_jobs{state=\"running\"} 0\n"))
    #expect(metrics.contains("apus_jobs_devices_pending 0\n"))

    let rows = try Self.ask(service, "GET", "/v1/jobs/\(job)/results").json["results"]?.array ?? []
    let outcomes = Dictionary(
      uniqueKeysWithValues: rows.map { ($0["name"]?.string ?? "", $0["outcome"]?.string ?? "") })
    #expect(outcomes == ["d0": "accepted", "d1": "accepted", "d2": "no_app"])
    let failed = try Self.ask(service, "GET", "/v1/jobs/\(job)/results?outcome=no_app").json
    #expect(failed["results"]?.array?.count == 1 && failed["next"] == nil)

    // What was stored comes with the next connection, under the app's topic.
    let again = try service.connect(offline)
    try again.filter([(2, TestDirectory.topic)])
    #expect(
      try again.notification()[2]
        == ConnectedDevice.hash(TestDirectory.topic))
  }

  @Test("Names, ids and all devices")
  func selectors() throws {
    let service = try TestService(nil, Self.options())
    let devices = try (0..<3).map { _ in try Self.known(service) }
    try Self.label(devices[0].id, "kitchen", [], in: service)
    func count(_ selector: String) throws -> Int64? {
      let made = try Self.ask(
        service, "POST", "/v1/notifications",
        #"{\#(selector),"topic":"com.example.app",\#(Self.payload)}"#)
      #expect(made.status == 202, "\(made)")
      let end = try Self.awaitEnd(service, try #require(made.json["job"]?.string))
      return end["outcomes"]?["accepted"]?.integer
    }
    #expect(try count(#""device":"kitchen""#) == 1)
    // Each device once, however often it is named.
    #expect(
      try count(#""devices":["kitchen","\#(devices[0].id.text)","\#(devices[1].id.text)"]"#) == 2)
    #expect(try count(#""all":true"#) == 3)
    #expect(try Self.ask(service, "GET", "/v1/jobs").json["jobs"]?.array?.count == 3)
  }

  @Test(
    "What is wrong for all devices is refused at once",
    arguments: [
      (#"{"tags":["floor=9"],"topic":"com.example.app","payload":{"aps":{}}}"#, 404, "floor=9"),
      (#"{"device":"attic","topic":"com.example.app","payload":{"aps":{}}}"#, 404, "attic"),
      (#"{"tags":["fl oor"],"topic":"com.example.app","payload":{"aps":{}}}"#, 400, "fl oor"),
      (
        #"{"all":true,"tags":["a"],"topic":"com.example.app","payload":{"aps":{}}}"#, 400,
        "give one"
      ),
      (#"{"all":false,"topic":"com.example.app","payload":{"aps":{}}}"#, 400, "no device"),
      (#"{"all":true,"topic":"com.example.nobody","payload":{"aps":{}}}"#, 400, "TopicDisallowed"),
      (#"{"all":true,"payload":{"aps":{}}}"#, 400, "MissingTopic"),
      (#"{"all":true,"topic":"com.example.app","payload":{}}"#, 400, "BadRequestPayload"),
      (
        #"{"all":true,"topic":"com.example.app","push_type":"x","payload":{"aps":{}}}"#, 400,
        "InvalidPushType"
      ),
      (
        #"{"all":true,"topic":"com.example.app.voip","push_type":"alert","payload":{"aps":{}}}"#,
        400, "voip"
      ),
      (#"{"all":true,"topic":"com.example.app","id":"x","payload":{"aps":{}}}"#, 400, "\"id\""),
    ])
  func refused(body: String, status: Int, text: String) throws {
    let service = try TestService(nil, Self.options())
    _ = try Self.known(service)
    let answer = try Self.ask(service, "POST", "/v1/notifications", body)
    #expect(answer.status == status, "\(answer)")
    #expect(answer.json["detail"]?.string?.contains(text) == true, "\(answer)")
    #expect(try Self.ask(service, "GET", "/v1/jobs").json["jobs"]?.array == [])
  }

  @Test("A repeated Idempotency-Key sends once")
  func idempotency() throws {
    let service = try TestService(nil, Self.options())
    _ = try Self.known(service)
    let body = #"{"all":true,"topic":"com.example.app",\#(Self.payload)}"#
    let first = try Self.ask(service, "POST", "/v1/notifications", body, key: "a")
    let second = try Self.ask(service, "POST", "/v1/notifications", body, key: "a")
    #expect(first.status == 202 && second.status == 202)
    #expect(first.json["job"] == second.json["job"])
    let other = try Self.ask(
      service, "POST", "/v1/notifications",
      #"{"all":true,"topic":"com.example.app","payload":{"aps":{}}}"#, key: "a")
    #expect(other.status == 409)
    #expect(try Self.ask(service, "GET", "/v1/jobs").json["jobs"]?.array?.count == 1)
  }

  @Test("Without its results, a job finds in ledger and store who has the notification")
  func traces() throws {
    let directory = try TestDirectory()
    var service: TestService? = try TestService(directory, Self.options(isEphemeral: false))
    let running = try #require(service)
    let connected = try running.connect()
    try connected.enable(TestDirectory.topic)
    _ = try connected.token()
    let offline = try Self.known(running)
    let made = try Self.ask(
      running, "POST", "/v1/notifications",
      #"{"all":true,"topic":"com.example.app",\#(Self.payload)}"#)
    let job = try #require(made.json["job"]?.string)
    try connected.acknowledge(try connected.notification())
    _ = try Self.awaitEnd(running, job)
    running.stop()
    service = nil
    // As if the process had been killed before it wrote them.
    for kind in ["end", "results"] {
      try FileManager.default.removeItem(atPath: "\(directory.data.path)/jobs/\(job).\(kind)")
    }

    let next = try TestService(directory, Self.options(isEphemeral: false))
    let end = try Self.awaitEnd(next, job)
    #expect(end["outcomes"]?["accepted"]?.integer == 2)
    let again = try next.connect(connected.device)
    try again.enable(TestDirectory.topic)
    let other = try next.connect(offline)
    try other.filter([(2, TestDirectory.topic)])
    try other.acknowledge(try other.notification())
    // Nothing else comes: what is sent now is the next one.
    let token = try again.token()
    _ = try Self.ask(
      next, "POST", "/v1/notifications",
      #"{"token":"\#(token)","topic":"com.example.app","payload":{"aps":{"badge":1}}}"#)
    #expect(
      try again.notification()[3] == Array(#"{"aps":{"badge":1}}"#.utf8))
    withExtendedLifetime(service) {}
  }

  @Test("A device that may have the notification already is told so")
  func repeated() throws {
    let directory = try TestDirectory()
    let first = try TestService(directory, Self.options(isEphemeral: false))
    let devices = try (0..<2).map { _ in try Self.known(first) }
    first.stop()
    // A job that was accepted, and of which nothing is known.
    let job = PushJob(
      id: NotificationID(high: 5, low: 0x8000_0000_0000_0000),
      createdMilliseconds: Int64(Date.now.timeIntervalSince1970 * 1000), actor: "uid 0",
      selector: "all devices",
      push: {
        var push = GroupPush(environment: .production, payload: Array(#"{"aps":{}}"#.utf8))
        push.topic = TestDirectory.topic
        return push
      }(), idempotency: nil, deviceCount: 2)
    let jobs = JobService(directory.data, log: .init(minimumLevel: .error, sink: { _ in }))
    _ = try jobs.submit(job, to: devices.map(\.id))
    let second = try TestService(directory, Self.options(isEphemeral: false))
    _ = try Self.awaitEnd(second, job.id.text)
    for device in devices {
      let connection = try second.connect(device)
      try connection.filter([(2, TestDirectory.topic)])
      let notification = try connection.notification()
      // Stored, the last one, and perhaps repeated.
      #expect(notification[7] == [0x01 | 0x02 | 0x04])
    }
  }
}
