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
  case listNodes
  case drainNode
  case resumeNode
  case overview
  case history
  case listTeams
  case addTeam
  case listApps
  case addApp
  case changeApp
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
  case labelDevice
  case listTags
  case retireDevice
  case sendNotification
  case listJobs
  case job
  case jobResults
  case cancelJob
  case listChannels
  case createChannel
  case channel
  case deleteChannel
  case relay
  case commandRelay
  case listCodes
  case makeCode
  case withdrawCode
  case audit
  case refusals
  case ledger
  case counters
  case copyStore
  case listWebhooks
  case addWebhook
  case testWebhook
  case rotateWebhook
  case removeWebhook

  struct Route: Sendable {
    let web: WebRoute
    /// Nil: no token is required.
    let scope: AdminScopes?

    init(_ method: String, _ path: String, _ scope: AdminScopes?) {
      web = WebRoute(method, path)
      self.scope = scope
    }
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
    case .listNodes: Route("GET", "/v1/nodes", .read)
    case .drainNode: Route("POST", "/v1/nodes/{node}/drain", .operate)
    case .resumeNode: Route("POST", "/v1/nodes/{node}/resume", .operate)
    case .overview: Route("GET", "/v1/overview", .read)
    case .history: Route("GET", "/v1/history", .read)
    case .listTeams: Route("GET", "/v1/teams", .read)
    case .addTeam: Route("POST", "/v1/teams", .trust)
    case .listApps: Route("GET", "/v1/apps", .read)
    case .addApp: Route("POST", "/v1/apps", .trust)
    case .changeApp: Route("PATCH", "/v1/apps/{topic}", .trust)
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
    case .labelDevice: Route("PATCH", "/v1/devices/{device}", .operate)
    case .listTags: Route("GET", "/v1/tags", .read)
    case .sendNotification: Route("POST", "/v1/notifications", .send)
    case .listJobs: Route("GET", "/v1/jobs", .read)
    case .job: Route("GET", "/v1/jobs/{job}", .read)
    case .jobResults: Route("GET", "/v1/jobs/{job}/results", .read)
    case .cancelJob: Route("POST", "/v1/jobs/{job}/cancel", .send)
    case .listChannels: Route("GET", "/v1/channels", .read)
    case .createChannel: Route("POST", "/v1/channels", .operate)
    case .channel: Route("GET", "/v1/channels/{channel}", .read)
    case .deleteChannel: Route("DELETE", "/v1/channels/{channel}", .operate)
    case .relay: Route("GET", "/v1/relay", .read)
    case .commandRelay: Route("POST", "/v1/relay/{topic}", .operate)
    case .retireDevice: Route("POST", "/v1/devices/{device}/retire", .operate)
    case .listCodes: Route("GET", "/v1/codes", .read)
    case .makeCode: Route("POST", "/v1/codes", .operate)
    case .withdrawCode: Route("DELETE", "/v1/codes/{sha256}", .operate)
    case .audit: Route("GET", "/v1/audit", .read)
    case .refusals: Route("GET", "/v1/refusals", .read)
    // POST, because a device token must not be in a URL, which proxies log.
    case .ledger: Route("POST", "/v1/ledger/query", .read)
    case .counters: Route("GET", "/v1/counters", .read)
    case .copyStore: Route("POST", "/v1/store/copy", .trust)
    case .listWebhooks: Route("GET", "/v1/webhooks", .read)
    case .addWebhook: Route("POST", "/v1/webhooks", .trust)
    case .testWebhook: Route("POST", "/v1/webhooks/{name}/test", .trust)
    case .rotateWebhook: Route("POST", "/v1/webhooks/{name}/rotate", .trust)
    case .removeWebhook: Route("DELETE", "/v1/webhooks/{name}", .trust)
    }
  }

  /// Whether something may be different afterwards.
  var changesAnything: Bool { route.web.method != "GET" && self != .ledger }

  /// Whether requests may have a body.
  var takesBody: Bool { ["POST", "PATCH"].contains(route.web.method) }

  private static let routes = WebRoutes(allCases, \.route.web)

  /// The operation of a request, and the values of the variable segments of its path.
  static func find(
    method: String, segments: [String]
  ) throws(AdminProblem) -> (operation: AdminOperation, parameters: [String]) {
    switch routes.match(method: method, segments: segments) {
    case .operation(let operation, let parameters): return (operation, parameters)
    case .unknownPath:
      throw AdminProblem(.notFound, "unknown path; GET /v1/openapi.json lists all paths")
    case .otherMethods(let allowed):
      throw AdminProblem(
        .methodNotAllowed, "this path allows \(allowed)", headers: [.init("Allow", allowed)])
    }
  }
}
