import ApusEmbedded
import ApusModel
import ApusWire
import Testing

@testable import ApusDev

/// What a device shows of a payload, as JSON of the API.
@Suite("The rendering of a push", .serialized)
struct RenderingTests {
  private static let payload =
    #"{"aps":{"alert":{"body":"Chess?","action-loc-key":"OPEN","launch-image":"Start.png"}}}"#

  private func json(_ payload: String, _ strings: [String: String] = [:]) throws -> JSONValue {
    let rendering = try #require(
      Rendering(payload: Array(payload.utf8), language: "en", strings: strings))
    var writer = JSONWriter()
    rendering.write(to: &writer)
    let bytes = writer.bytes
    return try JSONValue(parsing: bytes.span)
  }

  @Test("It has the members of the description")
  func members() throws {
    let description = EmbeddedFile.devAPI.bytes
    let document = try JSONValue(parsing: description.span)
    let schema = document["components"]?["schemas"]?["Rendering"]?["properties"]
    let written = try json(Self.payload).object?.members.map(\.key)
    #expect(Set(written ?? []) == Set(schema?.object?.members.map(\.key) ?? []))
  }

  @Test("The button and the launch image are in it, the button in the user's language")
  func buttonAndImage() throws {
    let plain = try json(Self.payload)
    #expect(plain["action"]?.string == "OPEN")
    #expect(plain["launchImage"]?.string == "Start.png")
    #expect(try json(Self.payload, ["OPEN": "Join"])["action"]?.string == "Join")
    let without = try json(#"{"aps":{"alert":"Chess?"}}"#)
    #expect(without["action"] == .null && without["launchImage"] == .null)
  }

  @Test("A device's notifications and the push itself have the button and the launch image")
  func throughTheAPI() async throws {
    let bench = try Bench()
    defer { bench.stop() }
    let set = try await bench.ask(
      "PUT", "/api/v1/strings/\(Bench.topic)/en", #""OPEN" = "Join";"#, contentType: "text/plain")
    #expect(set.status == 200, "\(set.text)")
    let sent = try await bench.ask(
      "POST", "/api/v1/send", #"{"device":"phone","payload":\#(Self.payload)}"#)
    let number = try #require(sent.json["number"]?.integer, "\(sent.text)")
    let push = try await bench.poll(number, "what the device shows") { $0["shown"] != .null }
    let shown = try await bench.ask("GET", "/api/v1/devices/phone/shown").json["shown"]?.array
    for rendering in [push["shown"], push["preview"], shown?.first?["rendering"]] {
      #expect(rendering?["action"]?.string == "Join", "\(String(describing: rendering))")
      #expect(rendering?["launchImage"]?.string == "Start.png")
    }
  }
}
