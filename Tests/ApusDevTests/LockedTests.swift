import ApusLoop
import ApusWire
import Foundation
import Testing

@testable import ApusDev

@Suite("A development service on another address", .serialized)
struct LockedTests {
  private static let password = "a password of tests".replacingOccurrences(of: " ", with: "-")

  private func bench() throws -> Bench {
    try Bench {
      $0.listen = .anyIPv4(port: 0)
      $0.password = Self.password
    }
  }

  @Test("Everything except the console's files needs the password")
  func password() async throws {
    let bench = try bench()
    defer { bench.stop() }
    #expect(bench.facts.console == "http://localhost:\(bench.facts.consoleAddress.port)")
    #expect(try await bench.ask("GET", "/").status == 200)
    #expect(try await bench.ask("GET", "/assets/app.js").status == 200)
    #expect(
      try await bench.ask("GET", "/api/v1/console").text == #"{"kind":"dev","locked":true}"# + "\n")
    let right = "authorization: Bearer \(Self.password)"
    let file = try await bench.ask("GET", "/api/v1/files/authority.pem", headers: [right])
    #expect(file.text == (try String(contentsOfFile: bench.facts.authorityFile, encoding: .utf8)))
    let missing = try await bench.ask("GET", "/api/v1/files/service.key", headers: [right])
    #expect(missing.status == 404 && missing.text.contains("authority.pem, key.p8, provider.pem"))
    for (method, path, body) in [
      ("GET", "/api/v1/files/key.p8", nil), ("GET", "/api/v1/files/authority.pem", nil),
      ("GET", "/api/v1/status", nil), ("DELETE", "/api/v1/pushes", nil),
      ("POST", "/api/v1/pushes/count", "{}"), ("GET", "/api/v1/devices", nil),
    ] {
      let without = try await bench.ask(method, path, body)
      #expect(without.status == 401, "\(path)")
      #expect(without.json["error"]?["code"]?.string == "unauthorized")
      #expect(without.headers["www-authenticate"] == "Bearer realm=\"apus\"")
      #expect(try await bench.ask(method, path, body, headers: [right]).status == 200, "\(path)")
    }
    // Another host name is accepted, but requests from other sites are rejected.
    let named = ["host: dev.example:2190", right]
    #expect(try await bench.ask("GET", "/api/v1/status", headers: named).status == 200)
    let foreign = named + ["origin: http://evil.example"]
    #expect(try await bench.ask("DELETE", "/api/v1/pushes", headers: foreign).status == 403)
  }

  @Test("Wrong guesses are answered with growing delays, then rejected, like a late right one")
  func guesses() async throws {
    let bench = try bench()
    defer { bench.stop() }
    // All at once: one failure is forgiven every 30 s, and the delays of ten sequential guesses add up to nearly that.
    let wrong = "authorization: Bearer \(Self.password)x"
    try await withThrowingTaskGroup { guesses in
      for _ in 0..<10 {
        guesses.addTask { try await bench.ask("GET", "/api/v1/status", headers: [wrong]).status }
      }
      var refused = 0
      for try await status in guesses {
        guard status != 401 else { continue }
        #expect(status == 429)
        refused += 1
        let right = "authorization: Bearer \(Self.password)"
        let late = try await bench.ask("GET", "/api/v1/status", headers: [right])
        #expect(late.status == 429 && late.json["error"]?["code"]?.string == "too-many-attempts")
        #expect(late.headers["retry-after"] != nil)
      }
      #expect(refused == 1)
    }
  }

  @Test("On loopback no password is needed")
  func loopback() async throws {
    let bench = try Bench()
    defer { bench.stop() }
    #expect(try await bench.ask("GET", "/api/v1/console").json["locked"] == .bool(false))
    #expect(try await bench.ask("GET", "/api/v1/status").status == 200)
  }

  @Test("Generated passwords differ and are long enough")
  func made() {
    let (one, other) = (DevPassword.make(), DevPassword.make())
    #expect(one != other && DevPassword.lengths.contains(one.utf8.count))
  }
}
