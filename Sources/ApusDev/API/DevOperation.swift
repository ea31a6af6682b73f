import ApusWeb
/// Everything that the API can be asked for. The raw values are the operations' ids in the description.
package enum DevOperation: String, Sendable, CaseIterable {
  case page, asset, describe, health, console
  case status
  case listPushes, getPush, clearPushes, waitForPushes, countPushes, assertPushes
  case violations, clearViolations
  case listDevices, addDevice, changeDevice, removeDevice, shown, clearShown
  case listFaults, addFault, removeFaults, removeFault
  case clock, setClock
  case listStrings, strings, setStrings
  case send
  case makeProviderToken, checkToken
  case events

  package struct Route: Sendable {
    package var method: String
    /// Segments; one in braces stands for any text.
    package var pattern: [String]
    /// What a body must be; nil: there is none.
    package var body: Body?

    package enum Body: Sendable { case json, text }

    init(_ method: String, _ path: String, _ body: Body? = nil) {
      self.method = method
      pattern = path.split(separator: "/").map(String.init)
      self.body = body
    }

    /// As the description spells it.
    package var path: String { "/" + pattern.joined(separator: "/") }
  }

  package var route: Route {
    switch self {
    case .page: Route("GET", "/")
    case .asset: Route("GET", "/assets/{name}")
    case .describe: Route("GET", "/openapi.json")
    case .health: Route("GET", "/healthz")
    case .console: Route("GET", "/api/v1/console")
    case .status: Route("GET", "/api/v1/status")
    case .listPushes: Route("GET", "/api/v1/pushes")
    case .getPush: Route("GET", "/api/v1/pushes/{number}")
    case .clearPushes: Route("DELETE", "/api/v1/pushes")
    case .waitForPushes: Route("POST", "/api/v1/pushes/wait", .json)
    case .countPushes: Route("POST", "/api/v1/pushes/count", .json)
    case .assertPushes: Route("POST", "/api/v1/pushes/assert", .json)
    case .violations: Route("GET", "/api/v1/violations")
    case .clearViolations: Route("DELETE", "/api/v1/violations")
    case .listDevices: Route("GET", "/api/v1/devices")
    case .addDevice: Route("POST", "/api/v1/devices", .json)
    case .changeDevice: Route("PATCH", "/api/v1/devices/{id}", .json)
    case .removeDevice: Route("DELETE", "/api/v1/devices/{id}")
    case .shown: Route("GET", "/api/v1/devices/{id}/shown")
    case .clearShown: Route("DELETE", "/api/v1/devices/{id}/shown")
    case .listFaults: Route("GET", "/api/v1/faults")
    case .addFault: Route("POST", "/api/v1/faults", .json)
    case .removeFaults: Route("DELETE", "/api/v1/faults")
    case .removeFault: Route("DELETE", "/api/v1/faults/{id}")
    case .clock: Route("GET", "/api/v1/clock")
    case .setClock: Route("PUT", "/api/v1/clock", .json)
    case .listStrings: Route("GET", "/api/v1/strings")
    case .strings: Route("GET", "/api/v1/strings/{topic}/{language}")
    case .setStrings: Route("PUT", "/api/v1/strings/{topic}/{language}", .text)
    case .send: Route("POST", "/api/v1/send", .json)
    case .makeProviderToken: Route("POST", "/api/v1/tokens/provider", .json)
    case .checkToken: Route("POST", "/api/v1/tokens/check", .json)
    case .events: Route("GET", "/api/v1/events")
    }
  }

  /// Parameters of the query.
  package var parameters: [String] {
    switch self {
    case .listPushes:
      ["limit", "before", "q", "token", "topic", "type", "verdict", "device"]
    case .violations, .makeProviderToken: ["format"]
    case .events: ["brief"]
    default: []
    }
  }

  /// Whether it needs no password where there is one.
  var isOpen: Bool {
    switch self {
    case .page, .asset, .describe, .health, .console: true
    default: false
    }
  }

  // MARK: Routing

  private static let routes = allCases.map { (operation: $0, route: $0.route) }

  /// What a request is for, and the texts that stand in the places of its pattern.
  static func find(
    method: String, segments: [String]
  ) throws(DevProblem) -> (operation: DevOperation, parameters: [String]) {
    let candidates = routes.filter { matches(segments, $0.route.pattern) }
    guard !candidates.isEmpty else {
      throw DevProblem(
        .notFound, "there is nothing at that path; GET /openapi.json lists what there is")
    }
    // RFC 9110, section 9.3.2: HEAD is GET without the content.
    let method = method == "HEAD" ? "GET" : method
    guard let found = candidates.first(where: { $0.route.method == method }) else {
      let allowed = candidates.map(\.route.method).joined(separator: ", ")
      var problem = DevProblem(.methodNotAllowed, "this path takes \(allowed)")
      problem.headers = [.init("Allow", allowed)]
      throw problem
    }
    return (
      found.operation, zip(segments, found.route.pattern).filter { isParameter($1) }.map(\.0)
    )
  }

  private static func matches(_ segments: [String], _ pattern: [String]) -> Bool {
    segments.count == pattern.count
      && zip(segments, pattern).allSatisfy { isParameter($1) ? !$0.isEmpty : $0 == $1 }
  }

  private static func isParameter(_ part: String) -> Bool { part.first == "{" }
}
