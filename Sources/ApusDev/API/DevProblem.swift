import ApusWeb
import ApusWire

/// Why the API does not do what it was asked for: `{"error": {"code", "message", "field", "line", "column"}}`.
package struct DevProblem: Error, Sendable, CustomStringConvertible {
  /// One word for programs; each has its status.
  package enum Code: String, Sendable, CaseIterable {
    /// The request has not the form that it must have.
    case malformed
    /// A member or a parameter is missing, unknown or out of its range.
    case invalid
    /// The request comes from another site, or was sent to another name.
    case forbidden
    /// No password, or a wrong one.
    case unauthorized
    case notFound = "not-found"
    case tooManyAttempts = "too-many-attempts"
    case methodNotAllowed = "method-not-allowed"
    /// It did not happen within its time.
    case timeout
    /// It is so already, or something that is there forbids it; an assertion does not hold.
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
  /// For people: what was wrong, and what would be right.
  package var message: String
  package var field: String?
  /// In the body of the request, from 1.
  var position: (line: Int, column: Int)?
  var headers: [WebField] = []
  /// Writes further members beside `error`.
  var details: @Sendable (inout JSONWriter) -> Void = { _ in }

  package init(_ code: Code, _ message: String, field: String? = nil) {
    self.code = code
    self.message = message
    self.field = field
  }

  /// - Parameter body: What the fault was found in.
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

  /// An object, whose members `body` writes.
  init(status: Int = 200, object body: (inout JSONWriter) -> Void) {
    var writer = JSONWriter()
    writer.beginObject()
    body(&writer)
    writer.endObject()
    self.init(writer, status: status)
  }
}
