import ApusWeb
package import ApusWire

/// Why the administration does not do what it was asked for: `{"reason": ..., "detail": ...}`.
struct AdminProblem: Error, Sendable, Hashable {
  /// One word for programs; each has its status.
  enum Reason: String, Sendable, CaseIterable {
    /// The request has not the form that it must have.
    case malformed
    /// A member or a parameter is missing, unknown or out of its range.
    case invalid
    /// No token, or one that opens nothing.
    case unauthorized
    /// The token's scopes do not cover it.
    case scopeMissing = "scope-missing"
    /// The request comes from another site, or was sent to another name.
    case forbidden
    case notFound = "not-found"
    case methodNotAllowed = "method-not-allowed"
    /// It is so already, or something that is there forbids it.
    case conflict
    case tooLarge = "too-large"
    case mediaType = "media-type"
    case tooManyAttempts = "too-many-attempts"
    /// More of this than there may be.
    case tooManyRequests = "too-many-requests"
    /// Nothing that the caller could mend: the disk, most often.
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
  /// For people: what was wrong, and what would be right.
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
  init(json: JSONValue, status: Int = 200) {
    self.init(
      status, contentType: "application/json", body: .bytes(json.bytes + [UInt8(ascii: "\n")]))
  }
}

extension JSONValue {
  /// An object of the members that are there: an absent one is left out, not null.
  package static func fields(_ members: KeyValuePairs<String, JSONValue?>) -> JSONValue {
    .object(
      JSONObject(
        members.compactMap { key, value in value.map { JSONObject.Member(key: key, value: $0) } }))
  }

  static func number(_ value: some BinaryInteger) -> JSONValue { .integer(Int64(clamping: value)) }
}
