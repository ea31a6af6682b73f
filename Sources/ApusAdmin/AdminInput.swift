import ApusCore
import ApusModel
import ApusTrust
import ApusWeb
import ApusWire

/// The parameters of a request: variable path segments, query, and members of the body. Parameters that the operation
/// did not read are unknown and rejected, because a misspelt name would otherwise be ignored.
final class AdminInput {
  let request: WebRequest
  private let parameters: [String]
  private let members: [JSONObject.Member]
  /// In front of the names of members in errors.
  private let prefix: String
  private var used: Set<String> = []
  private var repeatable: Set<String> = []

  init(_ request: WebRequest, _ parameters: [String]) throws(AdminProblem) {
    self.request = request
    self.parameters = parameters
    prefix = ""
    guard !request.body.isEmpty else {
      members = request.query.map { .init(key: $0.name, value: .string($0.value)) }
      return
    }
    guard request.query.isEmpty else {
      throw AdminProblem(.malformed, "a request with content takes no query")
    }
    let json: JSONValue
    do throws(JSONFault) {
      json = try JSONValue(parsing: request.body.span)
    } catch {
      throw AdminProblem(.malformed, "the content is not JSON: \(error)")
    }
    guard let object = json.object else {
      throw AdminProblem(.malformed, "the content must be a JSON object")
    }
    members = object.members
  }

  /// The members of an object in the content of `outer`.
  private init(_ object: JSONObject, _ name: String, of outer: AdminInput) {
    request = outer.request
    parameters = []
    members = object.members
    prefix = "\(name)."
  }

  /// The caller; nil for operations that require no token.
  var caller: WebCaller? { request.caller }

  /// The scopes of the caller.
  var scopes: AdminScopes { AdminScopes(rawValue: UInt8(truncatingIfNeeded: caller?.rights ?? 0)) }

  /// The variable segment of the path.
  func parameter<Value>(
    _ name: String, _ read: (String) -> Value?, _ form: String
  ) throws(AdminProblem) -> Value {
    guard let text = parameters.first, let value = read(text) else {
      throw AdminProblem(.invalid, "\(name) in the path must be \(form)")
    }
    return value
  }

  /// The variable segment of the path: the id or the name of a device.
  func device(_ view: ServiceView) throws(AdminProblem) -> DeviceID {
    try view.device(called: parameter("device", { $0 }, "the id or the name of a device"))
  }

  /// Rejects members that the operation did not read, and duplicates.
  ///
  /// Call it before changing anything: changes cannot be undone.
  func requireAllUsed() throws(AdminProblem) {
    var seen: Set<String> = []
    for member in members {
      guard used.contains(member.key) else {
        let known = used.sorted().joined(separator: ", ")
        throw AdminProblem(
          .invalid,
          "\"\(prefix)\(member.key)\" is not a parameter of this operation"
            + (known.isEmpty ? ", which takes none" : "; its parameters are \(known)"))
      }
      guard seen.insert(member.key).inserted || repeatable.contains(member.key) else {
        throw AdminProblem(.invalid, "\"\(prefix)\(member.key)\" is given twice")
      }
    }
  }

  // MARK: Members

  /// Whether the request has the member. One that is only asked for is not read.
  func has(_ name: String) -> Bool { members.contains { $0.key == name && $0.value != .null } }

  private func member(_ name: String) -> JSONValue? {
    used.insert(name)
    guard let value = members.last(where: { $0.key == name })?.value, value != .null else {
      return nil
    }
    return value
  }

  private func problem(_ name: String, _ form: String) -> AdminProblem {
    AdminProblem(.invalid, "\"\(prefix)\(name)\" must be \(form)")
  }

  func value<Value>(
    _ name: String, _ form: String, _ read: (String) -> Value?
  ) throws(AdminProblem) -> Value? {
    guard let member = member(name) else { return nil }
    guard let text = member.string, let value = read(text) else { throw problem(name, form) }
    return value
  }

  /// Whether the member is there, as null.
  func isNull(_ name: String) -> Bool {
    used.insert(name)
    return members.contains { $0.key == name && $0.value == .null }
  }

  /// Values of a query, which may repeat the name and separate values by commas.
  func values<Value>(
    _ name: String, _ form: String, maximumCount: Int, _ read: (String) -> Value?
  ) throws(AdminProblem) -> [Value] {
    used.insert(name)
    repeatable.insert(name)
    let texts = members.filter { $0.key == name }.flatMap { member in
      (member.value.string ?? "").split(separator: ",", omittingEmptySubsequences: false)
    }
    guard texts.count <= maximumCount else {
      throw AdminProblem(.invalid, "\"\(name)\" may be given \(maximumCount) times")
    }
    var values: [Value] = []
    for text in texts {
      guard let value = read(String(text)) else { throw problem(name, form) }
      values.append(value)
    }
    return values
  }

  func text(_ name: String, maximumBytes: Int = 256) throws(AdminProblem) -> String? {
    try value(name, "a text of 1 to \(maximumBytes) bytes without control characters") { text in
      let isFit =
        1...maximumBytes ~= text.utf8.count
        && text.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x7f }
      return isFit ? text : nil
    }
  }

  func required<Value>(_ value: Value?, _ name: String) throws(AdminProblem) -> Value {
    guard let value else { throw AdminProblem(.invalid, "\"\(name)\" is missing") }
    return value
  }

  func shortID(_ name: String) throws(AdminProblem) -> ShortID? {
    try value(name, "ten letters and digits") { ShortID($0) }
  }

  /// The member `environment`.
  func environment() throws(AdminProblem) -> Environment? {
    try value("environment", "production or development") { Environment(name: $0) }
  }

  /// A number; in a query, its text.
  func integer(
    _ name: String, _ range: ClosedRange<Int64>, default fallback: Int64
  ) throws(AdminProblem) -> Int64 {
    guard let member = member(name) else { return fallback }
    guard let number = member.integer ?? member.string.flatMap({ Int64($0) }), range ~= number
    else { throw problem(name, "a number from \(range.lowerBound) to \(range.upperBound)") }
    return number
  }

  func bool(_ name: String) throws(AdminProblem) -> Bool {
    guard let member = member(name) else { return false }
    guard let value = member.bool else { throw problem(name, "true or false") }
    return value
  }

  func object(_ name: String) throws(AdminProblem) -> JSONObject? {
    guard let member = member(name) else { return nil }
    guard let value = member.object else { throw problem(name, "an object") }
    return value
  }

  /// The members of an object, as parameters of their own.
  func nested(_ name: String) throws(AdminProblem) -> AdminInput? {
    try object(name).map { AdminInput($0, name, of: self) }
  }

  func texts(_ name: String, maximumCount: Int) throws(AdminProblem) -> [String] {
    guard let member = member(name) else { return [] }
    guard let elements = member.array, elements.count <= maximumCount else {
      throw problem(name, "a list of at most \(maximumCount) texts")
    }
    var texts: [String] = []
    for element in elements {
      guard let text = element.string, !text.isEmpty else { throw problem(name, "a list of texts") }
      texts.append(text)
    }
    return texts
  }
}
