package import ApusWeb

/// The operations of the API. The raw values are the operation ids in the OpenAPI description.
package enum DevOperation: String, Sendable, CaseIterable {
  case page, asset, describe, health, console
  case status, file
  case listPushes, getPush, clearPushes, waitForPushes, countPushes, assertPushes
  case violations, clearViolations
  case listDevices, addDevice, changeDevice, removeDevice, shown, clearShown
  case activities, startActivity, clearActivities
  case listChannels, addChannel, removeChannel
  case listFaults, addFault, removeFaults, removeFault
  case clock, setClock
  case listStrings, strings, setStrings
  case send
  case makeProviderToken, checkToken
  case events

  package struct Route: Sendable {
    package let web: WebRoute
    /// The required kind of body; nil for no body.
    package let body: Body?

    package enum Body: Sendable { case json, text }

    init(_ method: String, _ path: String, _ body: Body? = nil) {
      web = WebRoute(method, path)
      self.body = body
    }
  }

  package var route: Route {
    switch self {
    case .page: Route("GET", "/")
    case .asset: Route("GET", "/assets/{name}")
    case .describe: Route("GET", "/openapi.json")
    case .health: Route("GET", "/healthz")
    case .console: Route("GET", "/api/v1/console")
    case .status: Route("GET", "/api/v1/status")
    case .file: Route("GET", "/api/v1/files/{name}")
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
    case .activities: Route("GET", "/api/v1/devices/{id}/activities")
    case .startActivity: Route("POST", "/api/v1/devices/{id}/activities", .json)
    case .clearActivities: Route("DELETE", "/api/v1/devices/{id}/activities")
    case .listChannels: Route("GET", "/api/v1/channels")
    case .addChannel: Route("POST", "/api/v1/channels", .json)
    case .removeChannel: Route("DELETE", "/api/v1/channels/{id}")
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

  /// Whether it never needs the password.
  var isOpen: Bool {
    switch self {
    case .page, .asset, .describe, .health, .console: true
    default: false
    }
  }

  private static let routes = WebRoutes(allCases, \.route.web)

  /// The operation of a request, and the texts of the variable parts of its path.
  static func find(
    method: String, segments: [String]
  ) throws(DevProblem) -> (operation: DevOperation, parameters: [String]) {
    switch routes.match(method: method, segments: segments) {
    case .operation(let operation, let parameters): return (operation, parameters)
    case .unknownPath:
      throw DevProblem(.notFound, "unknown path; GET /openapi.json lists all paths")
    case .otherMethods(let allowed):
      var problem = DevProblem(.methodNotAllowed, "this path allows \(allowed)")
      problem.headers = [.init("Allow", allowed)]
      throw problem
    }
  }
}
