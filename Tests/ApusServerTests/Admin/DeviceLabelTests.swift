import ApusDevice
import ApusModel
import ApusTesting
import ApusWire
import Foundation
import Testing

@testable import ApusDirectory
@testable import ApusServer

@Suite("Names and tags in the administration API", .serialized, .timeLimit(.minutes(10)))
struct DeviceLabelTests {
  private let kitchen = "/v1/devices/0123456789abcdef"

  private func texts(_ texts: [String]) -> JSONValue { .array(texts.map(JSONValue.string)) }

  @Test("A device gets a name and tags, is found by them, and loses them")
  func change() throws {
    let bench = try AdminBench()
    let made = try bench.ask(
      "PATCH", kitchen, #"{"name":"kitchen display","add_tags":["floor=2","kiosk"]}"#)
    #expect(made.status == 200 && made.json["name"]?.string == "kitchen display", "\(made)")
    #expect(made.json["tags"] == texts(["floor=2", "kiosk"]))
    let device = try bench.ask("GET", "/v1/devices/kitchen%20display").json
    #expect(device["device"]?.string == "0123456789abcdef")
    #expect(device["name"]?.string == "kitchen display" && device["connected"] == .bool(false))
    #expect(device["tags"] == texts(["floor=2", "kiosk"]))
    #expect(device["environments"] == .array([]) && device["stored_notifications"] == .integer(0))
    let changed = try bench.ask(
      "PATCH", "/v1/devices/kitchen%20display",
      #"{"name":null,"add_tags":["floor=3"],"remove_tags":["kiosk"]}"#)
    #expect(changed.json["name"] == nil && changed.json["tags"] == texts(["floor=3"]))
    #expect(try bench.ask("GET", "/v1/devices/kitchen%20display").status == 404)
    _ = try bench.ask("PATCH", kitchen, #"{"remove_tags":["floor"]}"#)
    #expect(try bench.ask("GET", kitchen).status == 404)
    let lines = try bench.auditLines()
    #expect(
      lines.map { $0["event"]?.string } == Array(repeating: "device.labelled", count: 3))
    #expect(
      lines[0]["subject"]?.string
        == "device 0123456789abcdef, name \"kitchen display\", tags floor=2 kiosk")
    #expect(lines[2]["subject"]?.string == "device 0123456789abcdef, no name, no tags")
  }

  @Test("A name belongs to one device, until that is retired; a device has at most 16 tags")
  func conflicts() throws {
    let bench = try AdminBench()
    let other = "/v1/devices/00000000000000ff"
    #expect(try bench.ask("PATCH", kitchen, #"{"name":"kitchen"}"#).status == 200)
    let taken = try bench.ask("PATCH", other, #"{"name":"kitchen"}"#)
    #expect(taken.status == 409 && taken.json["reason"]?.string == "conflict")
    #expect(taken.json["detail"]?.string?.contains("0123456789abcdef") == true, "\(taken)")
    #expect(try bench.ask("GET", other).status == 404)
    let tags = (0...16).map { "\"t\($0)\"" }
    let many = #"{"add_tags":[\#(tags.dropLast().joined(separator: ","))]}"#
    #expect(try bench.ask("PATCH", other, many).status == 200)
    #expect(try bench.ask("PATCH", other, #"{"add_tags":["more"]}"#).status == 409)
    #expect(
      try bench.ask("PATCH", other, #"{"add_tags":[\#(tags.joined(separator: ","))]}"#).status
        == 400)
    let read = try bench.token("reader", .read)
    let refused = try bench.ask(
      "PATCH", other, #"{"name":"x"}"#, token: read, peer: AdminBench.remotePeer)
    #expect(refused.status == 403 && refused.json["reason"]?.string == "scope-missing")
  }

  @Test("Lists are in order, in pages, and filtered by tags and by a text")
  func lists() throws {
    let bench = try AdminBench()
    for (index, body) in [
      #"{"name":"Hall","add_tags":["floor=1","kiosk"]}"#, #"{"add_tags":["floor=2","kiosk"]}"#,
      #"{"name":"cafe1"}"#, #"{"name":"kitchen","add_tags":["floor=2"]}"#,
    ].enumerated() {
      #expect(try bench.ask("PATCH", "/v1/devices/000000000000000\(index)", body).status == 200)
    }
    func list(_ query: String) throws -> (last: [String], next: String?) {
      let answer = try bench.ask("GET", "/v1/devices?\(query)")
      #expect(answer.status == 200, "\(answer)")
      let ids = (answer.json["devices"]?.array ?? []).compactMap { $0["device"]?.string }
      return (ids.map { String($0.suffix(1)) }, answer.json["next"]?.string)
    }
    for (query, expected) in [
      ("limit=9", "0123"), ("tag=floor=2", "13"), ("tag=floor", "013"), ("tag=floor,kiosk", "01"),
      ("tag=floor=2&tag=kiosk", "1"), ("tag=none", ""), ("query=HALL", "0"), ("query=kiosk", "01"),
      ("query=cafe", "2"), ("query=0000", "0123"), ("query=kitchen&tag=floor", "3"),
      ("query=kitchen&tag=kiosk", ""), ("after=0000000000000001", "23"),
      ("after=0000000000000001&tag=floor", "3"),
    ] {
      #expect(try list(query).last.joined() == expected, "\(query)")
    }
    for tag in ["", "&tag=floor"] {
      let first = try list("limit=2\(tag)")
      #expect(first.last == ["0", "1"] && first.next == "0000000000000001", "\(first)")
      let next = try list("limit=2\(tag)&after=\(first.next ?? "")")
      #expect(next.last.last == "3" && next.next == nil, "\(next)")
    }
    let tags = try bench.ask("GET", "/v1/tags").json["tags"]?.array ?? []
    #expect(
      tags.map { "\($0["tag"]?.string ?? "") \($0["devices"]?.integer ?? 0)" } == [
        "floor=1 1", "floor=2 2", "kiosk 2",
      ])
  }

  @Test("A connected device shows name, tags and tokens; the ledger has its name")
  func connected() async throws {
    let bench = try ConsoleBench()
    let (device, token) = try await bench.device()
    let (read, operate) = (try bench.token(.read), try bench.token([.read, .send, .operate]))
    let id = try #require(
      try bench.ask("GET", "/v1/devices", token: read).json["devices"]?.array?.first?["device"]?
        .string)
    // As a command does it while the service runs.
    var edit = LabelEdit()
    edit.name = .set(try #require(DeviceName("kitchen")))
    edit.added = [try #require(DeviceTag("floor=2"))]
    _ = try LabelRegister(bench.service.directory.data).edit(
      try #require(DeviceID(text: id)), edit
    ) { _ in false }
    for (caller, shown) in [(read, nil), (operate, token.hex)] {
      let one = try bench.ask("GET", "/v1/devices/kitchen", token: caller).json
      let topic = one["environments"]?.array?.first?["topics"]?.array?.first
      #expect(one["device"]?.string == id && one["tags"] == texts(["floor=2"]), "\(one)")
      #expect(topic?["token"]?.string == shown, "\(one)")
    }
    for query in ["query=kitchen", "tag=floor", "query=com.example", "query=\(id)"] {
      let list = try bench.ask("GET", "/v1/devices?\(query)", token: operate).json
      #expect(list["devices"]?.array?.count == 1, "\(query)")
      #expect(list["devices"]?.array?.first?["name"]?.string == "kitchen")
      #expect(list["devices"]?.array?.first?["connected"] == .bool(true))
      #expect(!"\(list)".contains(token.hex))
    }
    let push =
      #"{"token":"\#(token.hex)","topic":"\#(TestDirectory.topic)","payload":{"aps":{}}}"#
    #expect(try bench.ask("POST", "/v1/notifications", push, token: operate).status == 200)
    var lines: [JSONValue]?
    for _ in 0..<100 where lines?.isEmpty ?? true {
      try await Task.sleep(for: .milliseconds(50))
      lines =
        try bench.ask("POST", "/v1/ledger/query", #"{"device":"kitchen"}"#, token: read)
        .json["lines"]?.array
    }
    #expect(lines?.isEmpty == false)
    #expect(lines?.allSatisfy { $0["device_name"]?.string == "kitchen" } == true, "\(lines ?? [])")
    await device.stop()
  }
}
