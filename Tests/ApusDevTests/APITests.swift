import ApusEmbedded
import ApusLoop
import ApusModel
import ApusServer
import ApusWeb
import ApusWire
import Foundation
import Testing

@testable import ApusDev

@Suite("The API of the development service", .serialized)
struct APITests {
  private static func document() throws -> JSONValue {
    let bytes = EmbeddedFile.devAPI.bytes
    return try JSONValue(parsing: bytes.span)
  }

  @Test("The description has each operation with its path, method and parameters")
  func description() async throws {
    let paths = try #require(try Self.document()["paths"]?.object)
    var described: Set<String> = []
    for path in paths.members {
      for method in path.value.object?.members ?? [] {
        let query = (method.value["parameters"]?.array ?? []).filter {
          $0["in"]?.string == "query"
        }
        let names = query.compactMap { $0["name"]?.string }.sorted()
        let hasBody = method.value["requestBody"] != nil
        described.insert(
          "\(method.key.uppercased()) \(path.key) \(method.value["operationId"]?.string ?? "") "
            + "\(names) \(hasBody)")
      }
    }
    let routes = DevOperation.allCases.map { operation in
      let route = operation.route
      return "\(route.web.method) \(route.web.path) \(operation.rawValue) "
        + "\(operation.parameters.sorted()) \(route.body != nil)"
    }
    #expect(described == Set(routes))
  }

  @Test("The description's references and enumerations are valid")
  func references() async throws {
    let document = try Self.document()
    let text = String(decoding: EmbeddedFile.devAPI.bytes, as: UTF8.self)
    for match in text.matches(of: /"#\/components\/(\w+)\/(\w+)"/) {
      let (kind, name) = (String(match.1), String(match.2))
      #expect(document["components"]?[kind]?[name] != nil, "\(kind)/\(name)")
    }
    let schemas = try #require(document["components"]?["schemas"])
    let codes = schemas["Problem"]?["properties"]?["error"]?["properties"]?["code"]?["enum"]
    #expect(
      Set((codes?.array ?? []).compactMap(\.string))
        == Set(DevProblem.Code.allCases.map(\.rawValue)))
    let fields = schemas["Matcher"]?["properties"]?.object?.members.map(\.key) ?? []
    #expect(Set(fields) == Set(Matcher.Field.allCases.map(\.rawValue)))
    let effects = (schemas["Effect"]?["oneOf"]?.array ?? []).compactMap {
      $0["properties"]?["type"]?["const"]?.string
    }
    #expect(Set(effects) == Set(FaultEffect.Kind.allCases.map(\.rawValue)))
  }

  @Test("A push has the members of the description")
  func pushMembers() async throws {
    let push = CapturedPush(number: 1, exchange: ViolationTests.exchange())
    var writer = JSONWriter()
    push.write(to: &writer, curl: "")
    let bytes = writer.bytes
    let members = try JSONValue(parsing: bytes.span).object?.members.map(\.key) ?? []
    let described = try Self.document()["components"]?["schemas"]?["Push"]?["properties"]?.object?
      .members.map(\.key)
    #expect(Set(members + ["payloadBase64"]) == Set(described ?? []))
  }

  @Test("Unknown operations and requests from other sites are rejected")
  func refusals() async throws {
    let bench = try Bench()
    defer { bench.stop() }
    let port = bench.facts.consoleAddress.port
    for (method, path, body, headers, status, code) in [
      ("GET", "/none", nil, [], 404, "not-found"),
      ("PUT", "/api/v1/pushes", nil, [], 405, "method-not-allowed"),
      ("GET", "/api/v1/status?a=1", nil, [], 400, "invalid"),
      ("DELETE", "/api/v1/pushes", "{}", [], 400, "malformed"),
      ("POST", "/api/v1/pushes/count", "{", [], 400, "malformed"),
      ("POST", "/api/v1/pushes/count", #"{"mach":{}}"#, [], 400, "invalid"),
      ("PUT", "/api/v1/clock", #"{"set":1,"reset":true}"#, [], 400, "invalid"),
      ("PATCH", "/api/v1/devices/none", #"{"online":false}"#, [], 404, "not-found"),
      ("PATCH", "/api/v1/devices/phone", #"{"power":"solar"}"#, [], 400, "invalid"),
      ("PATCH", "/api/v1/devices/phone", #"{"apps":{"com.none":"removed"}}"#, [], 400, "invalid"),
      ("POST", "/api/v1/devices", #"{"id":"phone"}"#, [], 409, "conflict"),
      ("POST", "/api/v1/devices", #"{"id":"../x"}"#, [], 400, "invalid"),
      ("DELETE", "/api/v1/faults/77", nil, [], 404, "not-found"),
      ("GET", "/api/v1/status", nil, ["host: evil.example"], 403, "forbidden"),
      ("DELETE", "/api/v1/pushes", nil, ["origin: http://evil.example"], 403, "forbidden"),
      ("DELETE", "/api/v1/pushes", nil, ["origin: null"], 403, "forbidden"),
      ("POST", "/api/v1/send", #"{"payload":{}}"#, [], 400, "invalid"),
      ("POST", "/api/v1/send", #"{"device":"x","payload":{}}"#, [], 404, "not-found"),
    ] as [(String, String, String?, [String], Int, String)] {
      let answer = try await bench.ask(method, path, body, headers: headers)
      #expect(answer.status == status, "\(method) \(path): \(answer.text)")
      #expect(answer.json["error"]?["code"]?.string == code, "\(method) \(path)")
      #expect(answer.json["error"]?["message"]?.string?.isEmpty == false)
    }
    let mistyped = try await bench.ask(
      "POST", "/api/v1/pushes/count", "{}", contentType: "text/plain")
    #expect(mistyped.status == 415)
    let own = try await bench.ask(
      "DELETE", "/api/v1/pushes", headers: ["origin: http://127.0.0.1:\(port)"])
    #expect(own.status == 200)
    let wrong = try await bench.ask("POST", "/api/v1/faults", "{\n\"nth\": 0,\n\"effect\": {}}")
    #expect(wrong.json["error"]?["field"]?.string == "nth")
    #expect(wrong.json["error"]?["line"]?.integer == 2)
    #expect(wrong.json["error"]?["column"]?.integer == 1)
  }

  @Test("The console's files are served with a strict policy")
  func page() async throws {
    let bench = try Bench()
    defer { bench.stop() }
    let page = try await bench.ask("GET", "/")
    #expect(page.status == 200)
    #expect(page.headers["content-type"] == "text/html; charset=utf-8")
    #expect(page.headers["content-security-policy"]?.contains("default-src 'none'") == true)
    #expect(page.headers["x-frame-options"] == "DENY")
    for match in page.text.matches(of: /(?:src|href)="(\/assets\/[^"#]+)"/) {
      #expect(try await bench.ask("GET", String(match.1)).status == 200, "\(match.1)")
    }
    #expect(try await bench.ask("GET", "/assets/..").status == 404)
    #expect(try await bench.ask("GET", "/openapi.json").json["openapi"]?.string == "3.1.0")
    let status = try await bench.ask("GET", "/api/v1/status").json
    #expect(status["mode"]?.string == "strict")
    #expect(status["snippets"]?.array?.count == 12)
    #expect((status["memoryBytes"]?.integer ?? 0) > 1_000_000)
  }

  @Test("Provider tokens are made and explained")
  func tokens() async throws {
    let bench = try Bench()
    defer { bench.stop() }
    func check(_ token: String) async throws -> JSONValue {
      try await bench.ask("POST", "/api/v1/tokens/check", #"{"token":"\#(token)"}"#).json
    }
    let made = try await bench.ask("POST", "/api/v1/tokens/provider", "{}").json
    let token = try #require(made["token"]?.string)
    #expect(try await check(token)["good"]?.bool == true)
    #expect(try await check("bearer \(token)")["keyID"]?.string == bench.facts.keyID)
    let text = try await bench.ask("POST", "/api/v1/tokens/provider?format=text").text
    #expect(try await check(text)["good"]?.bool == true)
    let old = try await bench.ask("POST", "/api/v1/tokens/provider", #"{"issuedAtSeconds":1000}"#)
      .json
    #expect(try await check(try #require(old["token"]?.string))["problems"]?.array?.count == 1)
    let broken = String(token.dropLast(20)) + String(repeating: "A", count: 20)
    #expect(try await check(broken)["good"]?.bool == false)
    #expect(try await check("a.b.c")["good"]?.bool == false)
    let device = try await check(try bench.token("tablet"))
    #expect(device["kind"]?.string == "device")
    #expect(device["device"]?.string == "tablet")
    #expect(device["topic"]?.string == Bench.topic)
    #expect(device["environment"]?.string == "production")
    #expect(try await check(String(repeating: "ab", count: 32))["good"]?.bool == false)
    #expect(try await bench.ask("POST", "/api/v1/tokens/check", #"{"token":"xyz"}"#).status == 400)
  }

  @Test("The clock is set, advanced and reset")
  func clock() async throws {
    let bench = try Bench()
    defer { bench.stop() }
    func put(_ body: String) async throws -> JSONValue {
      try await bench.ask("PUT", "/api/v1/clock", body).json
    }
    #expect(
      try await put(#"{"advanceMilliseconds":3600000}"#)["offsetMilliseconds"]?.integer == 3_600_000
    )
    #expect(
      try await put(#"{"advanceMilliseconds":-1000}"#)["offsetMilliseconds"]?.integer == 3_599_000)
    let set = try await put(#"{"set":1000000000000}"#)
    #expect((1_000_000_000_000...1_000_000_060_000).contains(set["now"]?.integer ?? 0))
    #expect(try await put(#"{"reset":true}"#)["offsetMilliseconds"]?.integer == 0)
  }

  @Test("A second service on the same port or directory fails with a clear message")
  func conflicts() async throws {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
    defer { try? FileManager.default.removeItem(at: folder) }
    let bench = try Bench { $0.dataDirectory = folder.path }
    defer { bench.stop() }
    let port = try #require(bench.facts.port(.provider, .production))
    #expect(throws: (any Error).self) { try Bench { $0.ports.http2 = port } }
    let console = bench.facts.consoleAddress.port
    #expect(throws: (any Error).self) { try Bench { $0.ports.console = console } }
    do {
      _ = try Bench { $0.dataDirectory = folder.path }
      Issue.record("it started")
    } catch {
      #expect("\(error)".contains("another `apus dev` uses \(folder.path)"))
    }
  }

  @Test(
    "A kept directory preserves key, tokens and devices; a temporary one is deleted")
  func directories() async throws {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
    defer { try? FileManager.default.removeItem(at: folder) }
    func run() throws -> [String] {
      let bench = try Bench { $0.dataDirectory = folder.path }
      defer { bench.stop() }
      return [bench.facts.keyID, try bench.token()]
    }
    #expect(try run() == run())
    let bench = try Bench()
    let path = bench.facts.dataDirectory
    let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
    #expect(mode == 0o700)
    bench.stop()
    #expect(!FileManager.default.fileExists(atPath: path))
  }

  @Test("A temporary directory has an RSA certificate only for old clients")
  func certificateForOldClients() throws {
    for isOld in [true, false] {
      let bench = try Bench { $0.allowsLegacyTLS = isOld }
      defer { bench.stop() }
      let file = "\(bench.facts.dataDirectory)/server/server-rsa.crt"
      #expect(FileManager.default.fileExists(atPath: file) == isOld)
    }
  }
}
