import ApusClient
import ApusWire
import ApusClient
import ApusWire
import Testing

@testable import ApusDev

@Suite("Events for a list")
struct BriefEventsTests {
  @Test(
    "Brief events have what a list shows, without headers and payload")
  func brief() async throws {
    let bench = try Bench()
    defer { bench.stop() }
    let client = try bench.client()
    let feed = bench.eventsFeed(isBrief: true)
    defer { feed.stop() }
    _ = try await feed.next("open")
    _ = try await client.send(bench.push(#"{"aps":{"alert":{"title":"Seen"}}}"#))
    let seen = try await feed.next("push").data
    #expect(seen["preview"]?["title"]?.string == "Seen")
    #expect(seen["verdict"]?["status"]?.integer == 200)
    for name in ["headers", "payload", "payloadText", "curl"] {
      #expect(seen[name] == nil, "\(name)")
    }
    _ = try await client.send(bench.push(#"{"aps":{"content-available":1},"order":7}"#))
    let text = try await feed.next("push").data["payloadText"]?.string
    #expect(text == #"{"aps":{"content-available":1},"order":7}"#)
  }

  @Test("The parameter brief must be true or false")
  func wrong() async throws {
    let bench = try Bench()
    defer { bench.stop() }
    let answer = try await bench.ask("GET", "/api/v1/events?brief=yes")
    #expect(answer.status == 400)
  }
}
