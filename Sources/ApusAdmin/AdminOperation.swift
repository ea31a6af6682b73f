import ApusModel
import ApusWeb

/// All operations of the administration API. The raw values are the operation ids in `openapi.json`.
enum AdminOperation: String, Sendable, CaseIterable {
  case page
  case asset
  case health
  case ready
  case metrics
  case describe
  case console
  case status
  case overview
  case history
  case listTeams
  case addTeam
  case listApps
  case addApp
  case removeApp
  case listKeys
  case addKey
  case revokeKey
  case listCertificates
  case revokeCertificate
  case rotate
  case listEnrolments
  case approveEnrolment
  case rejectEnrolment
  case listDevices
  case device
  case retireDevice
  case sendNotification
  case listCodes
  case makeCode
  case withdrawCode
  case audit
  case refusals
  case ledger
  case counters

  struct Route: Sendable {
    var method: String
    /// Path segments; a segment in braces matches any text.
    var pattern: [String]
    /// Nil: no token is required.
    var scope: AdminScopes?

    init(_ method: String, _ path: String, _ scope: AdminScopes?) {
      self.method = method
      pattern = path.split(separator: "/").map(String.init)
      self.scope = scope
    }

    /// The path as in `openapi.json`.
    var path: String { "/" + pattern.joined(separator: "/") }
  }

  var route: Route {
    switch self {
    case .page: Route("GET", "/", nil)
    case .asset: Route("GET", "/assets/{name}", nil)
    case .health: Route("GET", "/healthz", nil)
    case .ready: Route("GET", "/readyz", nil)
    case .metrics: Route("GET", "/metrics", .read)
    case .describe: Route("GET", "/v1/openapi.json", .read)
    case .console: Route("GET", "/v1/console", nil)
    case .status: Route("GET", "/v1/status", .read)
    case .overview: Route("GET", "/v1/overview", .read)
    case .history: Route("GET", "/v1/history", .read)
    case .listTeams: Route("GET", "/v1/teams", .read)
    case .addTeam: Route("POST", "/v1/teams", .trust)
    case .listApps: Route("GET", "/v1/apps", .read)
    case .addApp: Route("POST", "/v1/apps", .trust)
    case .removeApp: Route("DELETE", "/v1/apps/{topic}", .trust)
    case .listKeys: Route("GET", "/v1/keys", .read)
    case .addKey: Route("POST", "/v1/keys", .trust)
    case .revokeKey: Route("POST", "/v1/keys/{key}/revoke", .trust)
    case .listCertificates: Route("GET", "/v1/certificates", .read)
    case .revokeCertificate: Route("POST", "/v1/certificates/{sha256}/revoke", .trust)
    case .rotate: Route("POST", "/v1/rotations", .trust)
    case .listEnrolments: Route("GET", "/v1/enrolments", .read)
    case .approveEnrolment: Route("POST", "/v1/enrolments/{key}/approve", .operate)
    case .rejectEnrolment: Route("POST", "/v1/enrolments/{key}/reject", .operate)
    case .listDevices: Route("GET", "/v1/devices", .read)
    case .device: Route("GET", "/v1/devices/{device}", .read)
    case .sendNotification: Route("POST", "/v1/notifications", .send)
    case .retireDevice: Route("POST", "/v1/devices/{device}/retire", .operate)
    case .listCodes: Route("GET", "/v1/codes", .read)
    case .makeCode: Route("POST", "/v1/codes", .operate)
    case .withdrawCode: Route("DELETE", "/v1/codes/{sha256}", .operate)
    case .audit: Route("GET", "/v1/audit", .read)
    case .refusals: Route("GET", "/v1/refusals", .read)
    // POST, because a device token must not be in a URL, which proxies log.
    case .ledger: Route("POST", "/v1/ledger/query", .read)
    case .counters: Route("GET", "/v1/counters", .read)
    }
  }

  /// Whether requests may have a body.
  var takesBody: Bool { route.method == "POST" }

  // MARK: Routing

  private static let routes = allCases.map { (operation: $0, route: $0.route) }

  /// The operation of a request, and the values of the variable segments of its path.
  static func find(
    method: String, segments: [String]
  ) throws(AdminProblem) -> (operation: AdminOperation, parameters: [String]) {
    let candidates = routes.filter { matches(segments, $0.route.pattern) }
    guard !candidates.isEmpty else {
      throw AdminProblem(
        .notFound, "unknown path; GET /v1/openapi.json lists all paths")
    }
    // RFC 9110, section 9.3.2: HEAD is GET without the content.
    let method = method == "HEAD" ? "GET" : method
    guard let found = candidates.first(where: { $0.route.method == method }) else {
      var methods = candidates.map(\.route.method)
      if methods.contains("GET") { methods.append("HEAD") }
      let allowed = methods.joined(separator: ", ")
      throw AdminProblem(
        .methodNotAllowed, "this path allows \(allowed)", headers: [.init("Allow", allowed)])
    }
    let parameters = zip(segments, found.route.pattern).filter { isParameter($1) }.map(\.0)
    return (found.operation, parameters)
  }

  private static func matches(_ segments: [String], _ pattern: [String]) -> Bool {
    segments.count == pattern.count
      && zip(segments, pattern).allSatisfy { isParameter($1) ? !$0.isEmpty : $0 == $1 }
  }

  private static func isParameter(_ part: String) -> Bool { part.first == "{" }
}
