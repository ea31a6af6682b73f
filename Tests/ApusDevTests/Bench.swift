import ApusClient
import ApusLog
import ApusModel
import ApusServer
import ApusTesting
import ApusWire
import Foundation
import Testing

@testable import ApusDev

/// A development service on free ports, with HTTP clients for its API. Only one test may send at a time.
final class Bench: @unchecked Sendable {
  static let topic = "com.example.app"

  let substitute: DevService
  private var clients: [APNSClient] = []
  private var directory: TemporaryDirectory?

  /// A service that runs until the test process ends. Its directory is deleted at that time.
  static func lasting() throws -> Bench {
    let directory = TemporaryDirectory()
    let bench = try Bench { $0.dataDirectory = directory.path }
    bench.directory = directory
    return bench
  }

  init(_ change: (inout DevConfiguration) -> Void = { _ in }) throws {
    var configuration = DevConfiguration()
    configuration.ports = .free
    configuration.isLenient = false
    configuration.log = Log(minimumLevel: .error, sink: { _ in })
    configuration.version = "1.2.3"
    change(&configuration)
    substitute = try DevService(configuration)
  }

  /// Stops the service. Returns when everything has been closed.
  func stop() {
    for client in clients { client.closeImmediately() }
    substitute.stop()
  }

  var facts: DevFacts { substitute.facts }

  func token(_ device: String = "phone", topic: String = topic) throws -> String {
    try #require(substitute.token(device, topic: topic, .production))
  }

  // MARK: Sending

  func client(_ environment: ApusModel.Environment = .production) throws -> APNSClient {
    var configuration = ClientConfiguration(
      endpoint: Endpoint(
        host: "localhost", port: try #require(facts.port(.provider, environment))),
      trustRoots: .pem([UInt8](try Data(contentsOf: URL(fileURLWithPath: facts.authorityFile)))),
      credential: .providerTokenFile(
        path: facts.keyFile, keyID: facts.keyID, teamID: facts.team))
    configuration.retriesRefusals = false
    let client = try APNSClient(configuration)
    clients.append(client)
    return client
  }

  func push(_ payload: String, to token: String? = nil) throws -> PushRequest {
    PushRequest(
      token: try token ?? self.token(), topic: Self.topic, payload: Array(payload.utf8))
  }

  // MARK: Requests

  struct Answer {
    var status: Int
    var text: String
    var headers: [String: String]

    var json: JSONValue {
      let bytes = Array(text.utf8)
      return (try? JSONValue(parsing: bytes.span)) ?? .null
    }
  }

  /// Sends an API request from another thread: the service may need the threads of the tests to respond.
  func ask(
    _ method: String, _ path: String, _ body: String? = nil,
    headers: [String] = [], contentType: String = "application/json"
  ) async throws -> Answer {
    let url = "\(facts.console)\(path)"
    return try await withCheckedThrowingContinuation { continuation in
      DispatchQueue.global().async {
        continuation.resume(
          with: Result { try Self.curl(method, url, body, headers, contentType) })
      }
    }
  }

  private static func curl(
    _ method: String, _ url: String, _ body: String?, _ headers: [String], _ contentType: String
  ) throws -> Answer {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    var arguments = [
      "curl", "--silent", "--max-time", "30", "--include", "--request", method, "--path-as-is",
    ]
    for header in headers { arguments += ["--header", header] }
    if let body {
      arguments += ["--header", "content-type: \(contentType)", "--data-binary", body]
    }
    process.arguments = arguments + [url]
    let output = Pipe()
    process.standardOutput = output
    try process.run()
    let data = output.fileHandleForReading.readDataToEndOfFile()
    process.waitUntilExit()
    let text = String(decoding: data, as: UTF8.self).replacingOccurrences(of: "\r\n", with: "\n")
    let parts = text.components(separatedBy: "\n\n")
    let lines = try #require(parts.first).split(separator: "\n")
    let status = try #require(lines.first?.split(separator: " ").dropFirst().first)
    var fields: [String: String] = [:]
    for line in lines.dropFirst() {
      let sides = line.split(separator: ":", maxSplits: 1).map(String.init)
      fields[sides[0].lowercased()] = sides.last?.trimmingCharacters(in: .whitespaces)
    }
    return Answer(
      status: try #require(Int(status)), text: parts.dropFirst().joined(separator: "\n\n"),
      headers: fields)
  }

  /// Waits for matching pushes through the API.
  func wait(_ match: String, count: Int = 1) async throws -> [JSONValue] {
    let answer = try await ask(
      "POST", "/api/v1/pushes/wait",
      "{\"match\":\(match),\"count\":\(count),\"timeoutMilliseconds\":20000}")
    try #require(answer.status == 200, "\(answer.text)")
    return answer.json["pushes"]?.array ?? []
  }

  /// Waits until a push meets a condition.
  func poll(
    _ number: Int64, _ what: String, until holds: (JSONValue) -> Bool
  ) async throws -> JSONValue {
    for _ in 0..<400 {
      let push = try await ask("GET", "/api/v1/pushes/\(number)").json
      if holds(push) { return push }
      try await Task.sleep(for: .milliseconds(25))
    }
    Issue.record("\(what) did not arrive")
    return .null
  }
}
