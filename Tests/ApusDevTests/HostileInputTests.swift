import ApusModel
import ApusTesting
import ApusWire
import Testing

@testable import ApusDev

@Suite("Odd, large or malformed input is kept unchanged, or rejected with a position", .serialized)
final class HostileInputTests {
  private static let shared = Result { try Bench.lasting() }

  let bench: Bench

  init() throws { bench = try Self.shared.get() }

  /// Sends a body and returns the push from the inbox.
  private func captured(_ body: [UInt8]) async throws -> JSONValue {
    try await bench.disarm()
    let headers = bench.headers(try bench.token(), try await bench.authorization())
    _ = try bench.rawProvider().exchange(headers, body: body)
    return try #require(try await bench.wait("{}").first)
  }

  private static func nested(_ depth: Int) -> String {
    #"{"aps":{"alert":"deep"},"d":"# + String(repeating: "[", count: depth)
      + String(repeating: "]", count: depth) + "}"
  }

  @Test(
    "Markup, right-to-left text, emoji and control characters stay unchanged",
    arguments: [
      #"</script><script>alert(1)</script><img src=x onerror=alert(1)>&lt;&amp;'`${1}"#,
      "\u{202e}txt.exe\u{202c} \u{2066}\u{5d0}\u{5d1}\u{2069} \u{200f}",
      "👩‍👩‍👧‍👦 🏳️‍🌈 e\u{301} \u{feff}\u{fffd}\u{10ffff}",
      #"\u0000\u001b[31m\u2028\u2029\ud83d\ude00\r\n\t\\\""#,
      String(repeating: "x", count: 4096 - #"{"aps":{"alert":{"title":""}}}"#.utf8.count),
    ])
  func texts(escaped: String) async throws {
    let payload = #"{"aps":{"alert":{"title":"\#(escaped)"}}}"#
    let push = try await captured(Array(payload.utf8))
    #expect(push["verdict"]?["status"]?.integer == 200, "\(push["verdict"] ?? .null)")
    #expect(push["payloadText"]?.string == payload)
    #expect(push["payloadBytes"]?.integer == Int64(payload.utf8.count))
    let bytes = Array(payload.utf8)
    let title = try JSONValue(parsing: bytes.span)["aps"]?["alert"]?["title"]?.string
    #expect(push["payload"]?["aps"]?["alert"]?["title"]?.string == title)
    #expect(push["preview"]?["title"]?.string == title)
    let number = try #require(push["number"]?.integer)
    let settled = try await bench.poll(number, "the rendering") { $0["shown"] != .null }
    #expect(settled["shown"]?["title"]?.string == title)
    // A shell gets the payload as one word, whatever it contains.
    let quoted = payload.replacing("'", with: #"'\''"#)
    #expect(push["curl"]?.string?.contains("--data-binary '\(quoted)' ") == true)
  }

  @Test(
    "Bytes that are neither text nor JSON stay unchanged",
    arguments: [
      Array(#"{"aps":{"alert":""#.utf8) + [0xff, 0xfe, 0xc0, 0x80] + Array(#""}}"#.utf8),
      [0, 1, 2, 3], Array("{\"aps\":".utf8), Array("[]".utf8),
    ])
  func bytes(body: [UInt8]) async throws {
    let push = try await captured(body)
    #expect(push["payloadBytes"]?.integer == Int64(body.count))
    let text = push["payloadText"]?.string
    if String(validating: body, as: UTF8.self) == nil {
      let base64 = String(decoding: Base64.encode(body.span), as: UTF8.self)
      #expect(push["payloadBase64"]?.string == base64)
      #expect(push["payload"] == .null)
      #expect(push["curl"]?.string?.contains(base64) == true)
    } else {
      #expect(text.map { Array($0.utf8) } == body)
    }
  }

  @Test("JSON that is nested too deeply for a tree is shown as text", arguments: [8, 500, 1900])
  func depth(depth: Int) async throws {
    let payload = Self.nested(depth)
    let push = try await captured(Array(payload.utf8))
    #expect(push["payloadText"]?.string == payload)
    let listed = try await bench.ask("GET", "/api/v1/pushes?q=deep")
    #expect(listed.json["pushes"]?.array?.first?["payloadText"]?.string == payload)
  }

  @Test("A body that is nested too deeply is rejected with a position")
  func deepRequest() async throws {
    let answer = try await bench.ask(
      "POST", "/api/v1/pushes/count",
      #"{"match":{"payload.a":"# + String(repeating: "[", count: 50_000))
    #expect(answer.status == 400)
    #expect(answer.json["error"]?["code"]?.string == "malformed")
    #expect(answer.json["error"]?["line"]?.integer == 1)
  }

  @Test(
    "Unknown members of any operation are rejected with a position",
    arguments: [
      ("POST", "pushes/wait", "{\n \"timeout\": 5}", "timeout", 2, 2),
      (
        "POST", "pushes/assert", "{\"equal\":1,\n\"match\":{\"titel\":\"A\"}}", "match.titel", 2, 10
      ),
      ("POST", "devices", "{\"id\":\"x\",\"colour\":\"red\"}", "colour", 1, 11),
      ("PATCH", "devices/phone", "{\"apps\":{\"com.example.app\":\"gone\"}}", "apps", 1, 10),
      ("POST", "faults", "{\"effect\":{\"type\":\"noAnswer\"},\n\n \"nht\":1}", "nht", 3, 2),
      (
        "POST", "faults", "{\"effect\":{\"type\":\"deadToken\",\"since\":1}}", "effect.since", 1, 31
      ),
      ("POST", "faults", "{\"match\":{\"body\":{\"regex\":\"[\"}}}", "match.body.regex", 1, 19),
      ("PUT", "clock", "{\"advance\":1}", "advance", 1, 2),
      ("POST", "send", "{\"device\":\"phone\",\"payload\":{},\"push\":1}", "push", 1, 32),
      ("POST", "tokens/provider", "{\"key\":1}", "key", 1, 2),
      ("POST", "tokens/check", "{\"token\":\"a\",\"token\":\"b\"}", "token", 1, 14),
    ])
  func unknown(
    method: String, path: String, body: String, field: String, line: Int64, column: Int64
  ) async throws {
    let answer = try await bench.ask(method, "/api/v1/\(path)", body)
    #expect(answer.status == 400, "\(answer.text)")
    let error = answer.json["error"]
    #expect(error?["field"]?.string?.hasPrefix(field) == true, "\(answer.text)")
    #expect(
      error?["line"]?.integer == line && error?["column"]?.integer == column, "\(answer.text)")
    #expect(try await bench.ask("GET", "/api/v1/faults").json["faults"]?.array?.isEmpty == true)
  }

  @Test("The memory limit for pushes holds for any number of pushes")
  func memory() async throws {
    let bench = try Bench {
      $0.keep = 1000
      $0.keepMegabytes = 1
    }
    defer { bench.stop() }
    let headers = bench.headers(try bench.token(), try await bench.authorization())
    let provider = try bench.rawProvider()
    let payload = #"{"aps":{"alert":""# + String(repeating: "x", count: 4000) + #""}}"#
    for _ in 0..<200 {
      #expect(try provider.exchange(headers, body: Array(payload.utf8)).status == 200)
    }
    let counts = try await bench.ask("GET", "/api/v1/status").json["counts"]
    let (kept, bytes) = (counts?["kept"]?.integer ?? 0, counts?["bytes"]?.integer ?? 0)
    #expect(counts?["received"]?.integer == 200)
    #expect((50..<150).contains(kept), "\(kept)")
    #expect(((1 << 20) - 16_384...1 << 20).contains(bytes), "\(bytes)")
    #expect(bytes >= kept * Int64(payload.utf8.count))
    // The newest pushes exist, the oldest do not.
    #expect(try await bench.ask("GET", "/api/v1/pushes/200").status == 200)
    #expect(try await bench.ask("GET", "/api/v1/pushes/\(200 - kept)").status == 404)
  }
}
