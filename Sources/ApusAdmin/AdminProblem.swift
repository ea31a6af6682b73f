import ApusWeb
package import ApusWire

/// An error response of the administration API: `{"reason": ..., "detail": ...}`.
struct AdminProblem: Error, Sendable, Hashable {
  /// A code for programs; each has its HTTP status.
  enum Reason: String, Sendable, CaseIterable {
    /// The request is malformed.
    case malformed
    /// A member or parameter is missing, unknown or out of range.
    case invalid
    /// The token is missing or not valid.
    case unauthorized
    /// The token's scopes do not cover the operation.
    case scopeMissing = "scope-missing"
    /// The request comes from another site, or names another host.
    case forbidden
    case notFound = "not-found"
    case methodNotAllowed = "method-not-allowed"
    /// The change was already made, or conflicts with the current state.
    case conflict
    case tooLarge = "too-large"
    case mediaType = "media-type"
    case tooManyAttempts = "too-many-attempts"
    /// The rate limit of the operation is exceeded.
    case tooManyRequests = "too-many-requests"
    /// An internal error that the caller cannot fix, usually of the disk.
    case failed
    case unavailable

    var status: Int {
      switch self {
      case .malformed, .invalid: 400
      case .unauthorized: 401
      case .scopeMissing, .forbidden: 403
      case .notFound: 404
      case .methodNotAllowed: 405
      case .conflict: 409
      case .tooLarge: 413
      case .mediaType: 415
      case .tooManyAttempts, .tooManyRequests: 429
      case .failed: 500
      case .unavailable: 503
      }
    }
  }

  var reason: Reason
  /// For people: the problem, and how to fix it.
  var detail: String
  var headers: [WebField] = []

  init(_ reason: Reason, _ detail: String, headers: [WebField] = []) {
    self.reason = reason
    self.detail = detail
    self.headers = headers
  }

  var response: WebResponse {
    var response = WebResponse(
      json: .fields(["reason": .string(reason.rawValue), "detail": .string(detail)]),
      status: reason.status)
    response.headers = headers
    return response
  }
}

extension WebResponse {
  init(json: JSONValue, status: Int = 200, headers: [WebField] = []) {
    self.init(
      status, contentType: "application/json", headers: headers,
      body: .bytes(json.bytes + [UInt8(ascii: "\n")]))
  }
}

extension JSONValue {
  /// An object with the members that are not nil.
  package static func fields(_ members: KeyValuePairs<String, JSONValue?>) -> JSONValue {
    .object(
      JSONObject(
        members.compactMap { key, value in value.map { JSONObject.Member(key: key, value: $0) } }))
  }

  static func number(_ value: some BinaryInteger) -> JSONValue { .integer(Int64(clamping: value)) }
}
