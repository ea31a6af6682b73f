import ApusCore
import ApusModel
import ApusWeb
import ApusWire
import Testing

@testable import ApusAdmin

/// What the node of part 0 asks the others, and what they answer, as written down by hand.
@Suite("Questions to the nodes of other parts")
struct PartReportTests {
  private func json(_ text: String) throws -> JSONValue {
    let bytes = Array(text.utf8)
    return try JSONValue(parsing: bytes.span)
  }

  private static let report =
    #"{"sessions":[2,1,0,3,0,5],"dormant":1,"stored":7,"open_requests":4,"connections":["#
    + #"2,0,0,0,0,0,0,0,0,0,0,0],"#
    + #""webhooks":[{"name":"default","delivered":41,"waiting":2}],"problem":"the disk is full"}"#

  @Test("A report is read and written")
  func report() throws {
    let report = try #require(PartReport(json(Self.report)))
    #expect(report.sessions.connected == 3 && report.sessions[.development] == 1)
    #expect(report.sessions[.active] == 3 && report.sessions.inFlight == 5)
    #expect(report.dormantCount == 1 && report.stored == 7 && report.openRequests == 4)
    #expect(report.connections[.provider, .production] == 2)
    #expect(report.webhooks["default"]?.delivered == 41)
    #expect(report.webhooks["default"]?.waiting == 2)
    #expect(report.problem == "the disk is full")
    #expect(String(decoding: report.json.bytes, as: UTF8.self) == Self.report)
  }

  @Test(
    "What is no report is none",
    arguments: [
      "{}", #"{"sessions":[1],"dormant":1,"stored":7,"open_requests":4,"connections":[]}"#, "[]",
    ])
  func malformed(text: String) throws { #expect(PartReport(try json(text)) == nil) }

  @Test("A device is shown as its node sees it")
  func sighting() throws {
    let text =
      #"{"device":"00000000000000ab","environment":"development","last_seen":12,"#
      + #""session":{"address":"192.0.2.1:4","power":"low_power","in_flight":1,"waiting":2}}"#
    let (key, sighting) = try #require(PartSighting.read(json(text)))
    #expect(key == DeviceKey(id: DeviceID(0xab), environment: .development))
    #expect(sighting.lastSeenMilliseconds == 12 && sighting.session?.power == .lowPower)
    #expect(String(decoding: PartSighting.json(key, sighting).bytes, as: UTF8.self) == text)
    #expect(PartSighting.read(try json(#"{"device":"x","environment":"production"}"#)) == nil)
  }

  @Test("Nodes are asked with requests that are no operations of the API")
  func requests() throws {
    let report = PartQuery.report.request
    #expect(report.method == "GET" && report.segments == ["part", "report"])
    let sightings = PartQuery.sightings([DeviceID(0xab)]).request
    #expect(sightings.segments == ["part", "sightings"])
    #expect(
      String(decoding: sightings.body, as: UTF8.self) == #"{"devices":["00000000000000ab"]}"#)
    #expect(throws: AdminProblem.self) {
      try AdminOperation.find(method: "GET", segments: ["part", "report"])
    }
    let bench = try AdminBench()
    let answer = bench.api.answer(linked: report)
    guard case .bytes(let content) = answer.body else { return }
    #expect(PartReport(try JSONValue(parsing: content.span))?.sessions.connected == 0)
  }
}
