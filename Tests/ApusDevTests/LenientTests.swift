import ApusClient
import ApusModel
import ApusWire
import Foundation
import Testing

@testable import ApusDev

@Suite("Lenient acceptance and injected faults", .serialized)
struct LenientTests {
  @Test("An unknown token and topic always get the same device and app")
  func adoption() async throws {
    let bench = try Bench { $0.isLenient = true }
    defer { bench.stop() }
    let client = try bench.client()
    let tokens = [String(repeating: "ab", count: 32), String(repeating: "cd", count: 40)]
    for token in tokens + tokens {
      var push = try bench.push(#"{"aps":{"alert":{"title":"Hello"}}}"#, to: token)
      push.topic = "org.example.unheard"
      let outcome = try await client.send(push)
      guard case .accepted = outcome else {
        Issue.record("\(outcome)")
        return
      }
    }
    let pushes = try await bench.wait(#"{"title":"Hello"}"#, count: 4)
    let devices = pushes.map { $0["device"]?.string ?? "none" }
    #expect(devices == ["adopted-1", "adopted-2", "adopted-1", "adopted-2"])
    let number = try #require(pushes.last?["number"]?.integer)
    let shown = try await bench.poll(number, "the rendering") { $0["shown"] != .null }
    #expect(shown["shown"]?["title"]?.string == "Hello")
    #expect(shown["verdict"]?["notes"]?.array?.isEmpty == false)
  }

  @Test("A fault applies as armed, and its rule is named")
  func faults() async throws {
    let bench = try Bench()
    defer { bench.stop() }
    let client = try bench.client()
    let armed = try await bench.ask(
      "POST", "/api/v1/faults",
      #"{"name":"second","nth":2,"effect":{"type":"respond","reason":"Unregistered"}}"#)
    #expect(armed.status == 201, "\(armed.text)")
    var statuses: [UInt16] = []
    for _ in 1...3 {
      switch try await client.send(bench.push(#"{"aps":{"alert":{"title":"F"}}}"#)) {
      case .accepted: statuses.append(200)
      case .rejected(let rejection): statuses.append(rejection.status)
      case .unknown: statuses.append(0)
      }
    }
    #expect(statuses == [200, 410, 200])
    let pushes = try await bench.wait(#"{"title":"F"}"#, count: 3)
    #expect(pushes.map { $0["verdict"]?["fault"]?.string } == [nil, "second", nil])
    let rules = try await bench.ask("GET", "/api/v1/faults").json["faults"]?.array
    #expect(rules?.first?["struck"]?.integer == 1)
    #expect(rules?.first?["spent"]?.bool == true)
  }

  @Test("Provider tokens expire by the service's clock")
  func clock() async throws {
    let bench = try Bench()
    defer { bench.stop() }
    let client = try bench.client()
    guard case .accepted = try await client.send(bench.push(#"{"aps":{"alert":"A"}}"#)) else {
      Issue.record("it was not accepted")
      return
    }
    _ = try await bench.ask("PUT", "/api/v1/clock", #"{"advanceMilliseconds":7200000}"#)
    guard
      case .rejected(let rejection) = try await client.send(
        bench.push(#"{"aps":{"alert":"A"}}"#))
    else {
      Issue.record("it was not refused")
      return
    }
    #expect(rejection.reason == .expiredProviderToken)
  }

  @Test("Pushes sent by the API have a token of the service's clock")
  func composerClock() async throws {
    let bench = try Bench()
    defer { bench.stop() }
    for body in [
      #"{"advanceMilliseconds":0}"#, #"{"advanceMilliseconds":7200000}"#,
      #"{"advanceMilliseconds":-90000000}"#, #"{"set":4000000000000}"#, #"{"reset":true}"#,
    ] {
      #expect(try await bench.ask("PUT", "/api/v1/clock", body).status == 200)
      let sent = try await bench.ask(
        "POST", "/api/v1/send", #"{"device":"phone","payload":{"aps":{"badge":1}}}"#)
      #expect(sent.json["verdict"]?["status"]?.integer == 200, "\(body): \(sent.text)")
    }
  }

  @Test("Events report a push, and a reader that reconnects continues after its last event")
  func events() async throws {
    let bench = try Bench()
    defer { bench.stop() }
    let client = try bench.client()
    let feed = bench.eventsFeed()
    _ = try await feed.next("open")
    _ = try await client.send(bench.push(#"{"aps":{"alert":{"title":"E\n1"}}}"#))
    let first = try await feed.next("push")
    #expect(first.data["preview"]?["title"]?.string == "E\n1")
    _ = try await bench.ask("DELETE", "/api/v1/pushes")
    _ = try await feed.next("cleared")
    feed.stop()
    _ = try await client.send(bench.push(#"{"aps":{"alert":{"title":"E2"}}}"#))
    let later = bench.eventsFeed(after: first.id)
    _ = try await later.next("cleared")
    #expect(try await later.next("push").data["preview"]?["title"]?.string == "E2")
    later.stop()
    let foreign = bench.eventsFeed(after: "5")
    #expect(try await foreign.next("cleared").data["lost"]?.bool == true)
    foreign.stop()
  }

  @Test("The example's test suite passes against the development service")
  func example() async throws {
    let bench = try Bench()
    defer { bench.stop() }
    let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
      .appendingPathComponent("../../Examples/dev").standardizedFileURL
    let console = bench.facts.console
    let (status, output) = try await Bench.run(
      ["python3", "-B", "-m", "unittest", "test_example"], in: folder,
      ["APUS_DEV": console])
    #expect(status == 0, "\(output)")
  }
}
