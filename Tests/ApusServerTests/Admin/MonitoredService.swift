import ApusAdmin
import ApusLog
import ApusModel
import ApusTesting
import ApusWeb
import ApusWire

/// A service with its log and the socket of its administration.
struct MonitoredService {
  let service: TestService
  let lines = LogLines()

  init(_ change: (inout TestService.Options) -> Void = { _ in }) throws {
    var options = TestService.Options()
    options.workers = 1
    options.logLevel = .info
    options.logSink = lines.sink
    options.admin = AdminConfiguration(hasSocket: true, version: "1.2.3")
    change(&options)
    service = try TestService(nil, options)
  }

  func get(_ path: String...) throws -> String {
    let socket = WebCall.Endpoint.unix(path: service.directory.data.adminSocket)
    return String(decoding: try WebCall(socket, "GET", path).perform().body, as: UTF8.self)
  }

  func json(_ path: String...) throws -> JSONValue {
    let socket = WebCall.Endpoint.unix(path: service.directory.data.adminSocket)
    let body = try WebCall(socket, "GET", path).perform().body
    return try JSONValue(parsing: body.span)
  }

  /// Every sample of `/metrics`, by its name with its labels as they are written there.
  func metrics() throws -> [String: String] {
    var samples: [String: String] = [:]
    for line in try get("metrics").split(separator: "\n") where !line.hasPrefix("#") {
      guard let space = line.lastIndex(of: " ") else { continue }
      samples[String(line[..<space])] = String(line[line.index(after: space)...])
    }
    return samples
  }

  func metric(_ sample: String) throws -> Int? { try metrics()[sample].flatMap { Int($0) } }

  func ended(_ limit: String) throws -> Int? {
    try metric(#"apus_connections_ended_total{limit="\#(limit)"}"#)
  }

  /// The sum of a number over all lines of an event.
  func sum(_ field: String, of event: String) -> Int {
    lines.all(event).reduce(0) { sum, line in
      let word = line.split(separator: " ").first { $0.hasPrefix("\(field)=") }
      return sum + (word.flatMap { Int($0.dropFirst(field.count + 1)) } ?? 0)
    }
  }
}
