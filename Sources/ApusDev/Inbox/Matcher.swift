package import ApusWire

/// The facts of a push that a matcher can check.
package struct MatchFacts: Sendable {
  /// Empty for a broadcast.
  package var token: String
  /// Nil unless it is a broadcast.
  package var channel: String?
  package var topic: String?
  package var pushType: String?
  package var environment: String
  package var interface: String
  package var device: String?
  package var collapseID: String?
  package var apnsID: String?
  package var title: String?
  package var subtitle: String?
  package var body: String?
  /// Nil before the response and for accepted pushes.
  package var reason: String?
  /// Nil before the response.
  package var status: Int?
  package var payload: [UInt8]
}

/// Selects pushes: an object of fields, all of which must match.
///
/// `{"topic": "com.example.app", "payload.aps.alert.title": {"contains": "Hello"}}`
///
/// A field's value is the required value, or an object with one of `equals`, `contains`, `startsWith`, `regex`,
/// `oneOf` and `exists`. Unknown fields are rejected.
package struct Matcher: Sendable {
  enum Subject: Sendable, Hashable {
    case field(Field)
    /// The path inside the payload.
    case payload([String])
  }

  enum Field: String, Sendable, CaseIterable {
    case token, channel, topic, pushType, environment, interface, device, collapseID, apnsID
    case title, subtitle, body, reason, status

    /// Whether the field is known before the response.
    var isOfRequest: Bool { self != .reason && self != .status }
  }

  enum Condition: Sendable {
    case equals(JSONValue)
    case contains(String)
    case startsWith(String)
    case regex(Pattern)
    case oneOf([JSONValue])
    case exists(Bool)
  }

  private var clauses: [(subject: Subject, condition: Condition)] = []
  /// The matcher as written.
  package let source: JSONValue

  /// Whether it has no condition.
  package var isEmpty: Bool { clauses.isEmpty }

  /// Matches everything.
  package static let all = Matcher()

  private init() { source = .object(JSONObject()) }

  /// - Parameter ofRequests: For rules that are checked before the response: no `reason` and no `status`.
  package init(
    _ value: JSONValue, at place: [JSONStep] = [], ofRequests: Bool = false
  ) throws(InputFault) {
    source = value
    var reader = try FieldReader(value, at: place)
    for member in reader.all() {
      let here = place + [.key(member.key)]
      let subject = try Self.subject(member.key, ofRequests, here)
      clauses.append((subject, try Self.condition(member.value, at: here)))
    }
    try reader.finish()
  }

  private static func subject(
    _ name: String, _ ofRequests: Bool, _ place: [JSONStep]
  ) throws(InputFault) -> Subject {
    if name.hasPrefix("payload.") {
      return .payload(
        name.dropFirst("payload.".count).split(
          separator: ".", omittingEmptySubsequences: false
        ).map(String.init))
    }
    let fields = Field.allCases.filter { !ofRequests || $0.isOfRequest }
    guard let field = fields.first(where: { $0.rawValue == name }) else {
      let names = fields.map(\.rawValue).joined(separator: ", ")
      throw InputFault(
        "is not a field of a push; the fields are \(names), and paths such as payload.aps.alert.title",
        at: place)
    }
    return .field(field)
  }

  private static func condition(
    _ value: JSONValue, at place: [JSONStep]
  ) throws(InputFault) -> Condition {
    guard case .object(let object) = value else { return .equals(value) }
    guard object.members.count == 1, let member = object.members.first else {
      throw InputFault("must have one condition", at: place)
    }
    let here = place + [.key(member.key)]
    switch (member.key, member.value) {
    case ("equals", let value): return .equals(value)
    case ("contains", .string(let text)): return .contains(text)
    case ("startsWith", .string(let text)): return .startsWith(text)
    case ("oneOf", .array(let values)): return .oneOf(values)
    case ("exists", .bool(let exists)): return .exists(exists)
    case ("regex", .string(let text)):
      do throws(InputFault) {
        return .regex(try Pattern(text))
      } catch {
        throw error.below(here)
      }
    case ("contains", _), ("startsWith", _), ("regex", _):
      throw InputFault("must be a text", at: here)
    case ("oneOf", _): throw InputFault("must be a list", at: here)
    case ("exists", _): throw InputFault("must be true or false", at: here)
    default:
      throw InputFault(
        "is not a condition; the conditions are equals, contains, startsWith, regex, oneOf and exists",
        at: here
      )
    }
  }

  // MARK: Matching

  package func matches(_ facts: MatchFacts) -> Bool {
    var payload: JSONValue??
    for clause in clauses {
      let found: JSONValue?
      switch clause.subject {
      case .field(let field): found = Self.value(field, facts)
      case .payload(let path):
        if payload == nil { payload = .some(try? JSONValue(parsing: facts.payload.span)) }
        found = payload.flatMap { $0 }.flatMap { Self.find(path[...], in: $0) }
      }
      guard Self.holds(clause.condition, found) else { return false }
    }
    return true
  }

  private static func value(_ field: Field, _ facts: MatchFacts) -> JSONValue? {
    let text: String? =
      switch field {
      case .token: facts.token
      case .channel: facts.channel
      case .topic: facts.topic
      case .pushType: facts.pushType
      case .environment: facts.environment
      case .interface: facts.interface
      case .device: facts.device
      case .collapseID: facts.collapseID
      case .apnsID: facts.apnsID
      case .title: facts.title
      case .subtitle: facts.subtitle
      case .body: facts.body
      case .reason: facts.reason
      case .status: nil
      }
    if field == .status { return facts.status.map { .integer(Int64($0)) } }
    return text.map(JSONValue.string)
  }

  /// Keys may contain dots themselves: the longest existing key is used.
  private static func find(_ path: ArraySlice<String>, in value: JSONValue) -> JSONValue? {
    guard let first = path.first else { return value }
    if let elements = value.array {
      guard let index = Int(first), elements.indices.contains(index) else { return nil }
      return find(path.dropFirst(), in: elements[index])
    }
    guard let object = value.object else { return nil }
    for count in stride(from: path.count, through: 1, by: -1) {
      if let inner = object[path.prefix(count).joined(separator: ".")] {
        return find(path.dropFirst(count), in: inner)
      }
    }
    return nil
  }

  private static func holds(_ condition: Condition, _ found: JSONValue?) -> Bool {
    switch condition {
    case .equals(let value): found.map { isSame($0, value) } ?? (value == .null)
    case .oneOf(let values): found.map { found in values.contains { isSame(found, $0) } } ?? false
    case .exists(let exists): (found != nil) == exists
    case .contains(let text): found.flatMap(text(of:))?.contains(text) ?? false
    case .startsWith(let text): found.flatMap(text(of:))?.hasPrefix(text) ?? false
    case .regex(let pattern): found.flatMap(text(of:)).map(pattern.matches) ?? false
    }
  }

  private static func text(of value: JSONValue) -> String? {
    switch value {
    case .string(let text): text
    case .integer(let number): String(number)
    default: nil
    }
  }

  /// Compares numbers by value, and objects without regard to the order of members.
  private static func isSame(_ left: JSONValue, _ right: JSONValue) -> Bool {
    switch (left, right) {
    case (.integer, .number), (.number, .integer): left.number == right.number
    case (.array(let left), .array(let right)):
      left.count == right.count && zip(left, right).allSatisfy(isSame)
    case (.object(let left), .object(let right)):
      left.members.count == right.members.count
        && left.members.allSatisfy { member in
          right[member.key].map { isSame(member.value, $0) } ?? false
        }
    default: left == right
    }
  }
}
