import ApusWeb
import ApusWire

/// An error of the API: `{"error": {"code", "message", "field", "line", "column"}}`.
package struct DevProblem: Error, Sendable, CustomStringConvertible {
  /// A code for programs; each has an HTTP status.
  package enum Code: String, Sendable, CaseIterable {
    /// The request is malformed.
    case malformed
    /// A member or parameter is missing, unknown or out of range.
    case invalid
    /// The request comes from another site, or names another host.
    case forbidden
    /// No password, or a wrong one.
    case unauthorized
    case notFound = "not-found"
    case tooManyAttempts = "too-many-attempts"
    case methodNotAllowed = "method-not-allowed"
    /// The wait timed out.
    case timeout
    /// The request conflicts with the current state, or an assertion failed.
    case conflict
    case tooLarge = "too-large"
    case mediaType = "media-type"
    case failed

    package var status: Int {
      switch self {
      case .malformed, .invalid: 400
      case .unauthorized: 401
      case .forbidden: 403
      case .notFound: 404
      case .methodNotAllowed: 405
      case .timeout: 408
      case .conflict: 409
      case .tooLarge: 413
      case .mediaType: 415
      case .tooManyAttempts: 429
      case .failed: 500
      }
    }
  }

  package var code: Code
  /// A message for people: the problem, and how to fix it.
  package var message: String
  package var field: String?
  /// Position in the request's body, counted from 1.
  var position: (line: Int, column: Int)?
  var headers: [WebField] = []
  /// Writes further members next to `error`.
  var details: @Sendable (inout JSONWriter) -> Void = { _ in }

  package init(_ code: Code, _ message: String, field: String? = nil) {
    self.code = code
    self.message = message
    self.field = field
  }

  /// - Parameter body: The text with the fault.
  init(_ fault: InputFault, in body: [UInt8]) {
    self.init(fault.offset == nil ? .invalid : .malformed, fault.message, field: fault.field)
    position = fault.position(in: body)
  }

  package var description: String { field.map { "\($0): \(message)" } ?? message }

  var response: WebResponse {
    var writer = JSONWriter()
    writer.beginObject()
    writer.key("error")
    writer.beginObject()
    writer.text("code", code.rawValue)
    writer.text("message", message)
    if let field { writer.text("field", field) }
    if let position {
      writer.integer("line", Int64(position.line))
      writer.integer("column", Int64(position.column))
    }
    writer.endObject()
    details(&writer)
    writer.endObject()
    var response = WebResponse(writer, status: code.status)
    response.headers += headers
    return response
  }
}

extension WebResponse {
  init(_ writer: JSONWriter, status: Int = 200) {
    self.init(
      status, contentType: "application/json", body: .bytes(writer.bytes + [UInt8(ascii: "\n")]))
  }

  /// A response with an object; `body` writes its members.
  init(status: Int = 200, object body: (inout JSONWriter) -> Void) {
    var writer = JSONWriter()
    writer.beginObject()
    body(&writer)
    writer.endObject()
    self.init(writer, status: status)
  }
}
