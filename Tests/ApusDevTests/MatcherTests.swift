import ApusModel
import ApusWire
import Testing

@testable import ApusDev

@Suite("Which pushes a matcher selects")
struct MatcherTests {
  static let facts = MatchFacts(
    token: "ab12", topic: "com.example.app", pushType: "alert", environment: "production",
    interface: "http2", device: "phone", collapseID: nil,
    apnsID: "123e4567-e89b-12d3-a456-426614174000", title: "Hello", subtitle: nil, body: "World",
    reason: nil, status: 200,
    payload: Array(
      #"{"aps":{"alert":{"title":"Hello","loc-args":["a","b"]},"badge":3},"com.example.n":1.0}"#
        .utf8))

  static func matcher(_ text: String, ofRequests: Bool = false) throws -> Matcher {
    try Matcher(JSONText.parse(Array(text.utf8)), ofRequests: ofRequests)
  }

  @Test(
    "A matcher selects exactly the described pushes",
    arguments: [
      (#"{}"#, true),
      (#"{"topic":"com.example.app"}"#, true),
      (#"{"topic":"com.example"}"#, false),
      (#"{"topic":{"startsWith":"com.example"},"status":200}"#, true),
      (#"{"topic":{"startsWith":"com.example"},"status":400}"#, false),
      (#"{"status":{"oneOf":[200,410]}}"#, true),
      (#"{"status":{"oneOf":[410]}}"#, false),
      (#"{"status":{"regex":"^2"}}"#, true),
      (#"{"collapseID":null}"#, true),
      (#"{"topic":null}"#, false),
      (#"{"collapseID":{"exists":false}}"#, true),
      (#"{"collapseID":{"exists":true}}"#, false),
      (#"{"title":{"contains":"ell"}}"#, true),
      (#"{"title":{"contains":"xyz"}}"#, false),
      (#"{"body":{"regex":"^W(o|u)r+ld$"}}"#, true),
      (#"{"body":{"regex":"^orld"}}"#, false),
      (#"{"payload.aps.alert.title":"Hello"}"#, true),
      (#"{"payload.aps.badge":3}"#, true),
      (#"{"payload.aps.badge":{"equals":4}}"#, false),
      (#"{"payload.aps.alert.loc-args.1":"b"}"#, true),
      (#"{"payload.aps.alert.loc-args":["a","b"]}"#, true),
      (#"{"payload.com.example.n":1}"#, true),
      (#"{"payload.aps.alert":{"equals":{"loc-args":["a","b"],"title":"Hello"}}}"#, true),
      (#"{"payload.aps.sound":{"exists":false}}"#, true),
    ])
  func matching(text: String, isMeant: Bool) throws {
    #expect(try Self.matcher(text).matches(Self.facts) == isMeant)
  }

  @Test(
    "Faults of a matcher have a position",
    arguments: [
      ("{\n  \"topc\": \"a\"\n}", "topc", 2, 3),
      ("{\"topic\": {\"contains\": 1}}", "topic.contains", 1, 12),
      ("{\"topic\": {\"like\": \"a\"}}", "topic.like", 1, 12),
      ("{\"topic\": {}}", "topic", 1, 2),
      ("{\"title\": \"a\",\n\"body\":{\"regex\":\"(\"}}", "body.regex", 2, 9),
      ("{\"topic\": \"a\", \"topic\": \"b\"}", "topic", 1, 16),
      ("[]", nil, 1, 1),
      ("{\"topic\": }", nil, 1, 11),
      ("{\"é\": 1}", "é", 1, 2),
    ])
  func faults(text: String, field: String?, line: Int, column: Int) throws {
    do throws(InputFault) {
      _ = try Matcher(JSONText.parse(Array(text.utf8)))
      Issue.record("it was accepted")
    } catch {
      #expect(error.field == field, "\(error)")
      let position = error.position(in: Array(text.utf8))
      #expect(position?.line == line && position?.column == column, "\(error)")
    }
  }

  @Test("A rule for requests cannot match responses")
  func requestFields() throws {
    #expect(throws: InputFault.self) { try Self.matcher(#"{"status":200}"#, ofRequests: true) }
    #expect(try Self.matcher(#"{"token":"ab12"}"#, ofRequests: true).matches(Self.facts))
  }

  @Test("Patterns that would use too much memory are rejected")
  func patterns() throws {
    #expect(throws: InputFault.self) { try Pattern(String(repeating: "a", count: 201)) }
    #expect(throws: InputFault.self) { try Pattern("(((a{99}){99}){99})") }
    #expect(try Pattern("a{2}").matches("baab"))
  }
}
