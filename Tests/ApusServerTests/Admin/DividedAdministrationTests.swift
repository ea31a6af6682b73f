import ApusAdmin
import ApusCore
import ApusDevice
import ApusDirectory
import ApusModel
import ApusTesting
import ApusWire
import Testing

/// The administration of two nodes that decide about a part of the devices each. The node of part 1 is asked, which
/// passes everything on to that of part 0.
@Suite("The administration of nodes with a part of the devices each")
struct DividedAdministrationTests {
  private let bench: ConsoleBench
  private let token: String

  init() throws {
    bench = try ConsoleBench(parts: 2)
    token = try bench.token([.read, .operate, .send])
  }

  private func get(_ path: String) throws -> JSONValue {
    let answer = try bench.ask("GET", path, token: token)
    #expect(answer.status == 200, "\(answer)")
    return answer.json
  }

  private struct Connected {
    var id: DeviceID
    var device: PushDevice
    var token: DeviceToken
  }

  /// A device of each part.
  private func connect() async throws -> [Connected] {
    var found: [Connected] = []
    for part in 0..<2 {
      let share = try #require(DeviceShare(part: part, of: 2))
      while found.count == part {
        let issued = try bench.service.directory.data.issueDevice(
          name: "phone", nowSeconds: TestDirectory.nowSeconds)
        guard share.contains(issued.device) else { continue }
        let (device, token) = try await bench.connect(issued.identity)
        found.append(Connected(id: issued.device, device: device, token: token))
      }
    }
    return found
  }

  private func push(_ selector: String) throws {
    let answer = try bench.ask(
      "POST", "/v1/notifications",
      #"{\#(selector),"topic":"\#(TestDirectory.topic)","payload":{"aps":{"alert":"Hi"}}}"#,
      token: token)
    #expect(answer.status < 300, "\(answer)")
  }

  private func wait(_ condition: () throws -> Bool) async throws {
    for _ in 0..<400 {
      if try condition() { return }
      try await Task.sleep(for: .milliseconds(20))
    }
    Issue.record("the deadline passed")
  }

  @Test("Status, overview, devices, ledger and counters are those of all parts")
  func sums() async throws {
    let devices = try await connect()
    for one in devices {
      try push(#""token":"\#(one.token.hex)""#)
      var notifications = one.device.notifications.makeAsyncIterator()
      _ = try #require(await notifications.next())
    }
    #expect(try get("/v1/status")["devices_connected"]?.integer == 2)
    let overview = try get("/v1/overview")
    #expect(overview["devices"]?["connected"]?.integer == 2)
    #expect(overview["problem"] == nil)
    // Those of other parts are as old as their last write.
    try await wait { try get("/v1/overview")["totals"]?["delivered"]?.integer == 2 }
    let topics = try get("/v1/counters")["topics"]?.array
    #expect(topics?.first?["accepted"]?.integer == 2, "\(String(describing: topics))")

    let listed = try get("/v1/devices")["devices"]?.array ?? []
    #expect(listed.map { $0["device"]?.string } == devices.map(\.id.text).sorted())
    #expect(listed.allSatisfy { $0["connected"]?.bool == true }, "\(listed)")
    for one in devices {
      let shown = try get("/v1/devices/\(one.id.text)")["environments"]?.array?.first
      #expect(shown?["address"]?.string?.hasPrefix("127.0.0.1") == true)
      let query = #"{"device":"\#(one.id.text)"}"#
      try await wait {
        let lines = try bench.ask("POST", "/v1/ledger/query", query, token: token).json["lines"]
        return lines?.array?.last?["state"]?.string == "Delivered to Device"
      }
    }
  }

  @Test("A job to all devices reaches those of all parts")
  func job() async throws {
    let devices = try await connect()
    try push(#""all":true"#)
    for one in devices {
      var notifications = one.device.notifications.makeAsyncIterator()
      _ = try #require(await notifications.next())
    }
    try await wait {
      let job = try get("/v1/jobs")["jobs"]?.array?.first
      return job?["outcomes"]?["accepted"]?.integer == 2 && job?["state"]?.string == "done"
    }
  }

  @Test("While the node of a part is away the others are shown, and what is missing is said")
  func away() async throws {
    let devices = try await connect()
    defer { withExtendedLifetime(devices) {} }
    bench.service.service.loseOtherPart()
    let status = try get("/v1/status")
    #expect(status["devices_connected"]?.integer == 1)
    #expect(status["ready"]?.bool == true)
    #expect(status["problem"]?.string == "part 1 of the devices: its node is not reached")
    #expect(try get("/v1/devices")["devices"]?.array?.count == 2)
  }
}
