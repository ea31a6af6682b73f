import ApusModel
import ApusWire

/// Reads the members of a JSON object. Members that were not read are unknown and rejected, so that a misspelt name is
/// not silently ignored.
struct FieldReader {
  let place: [JSONStep]
  private let members: [JSONObject.Member]
  private var known: [String] = []

  init(_ value: JSONValue, at place: [JSONStep] = []) throws(InputFault) {
    guard let object = value.object else {
      throw InputFault("must be a JSON object", at: place)
    }
    self.place = place
    members = object.members
  }

  func place(of name: String) -> [JSONStep] { place + [.key(name)] }

  func fault(_ name: String, _ message: String) -> InputFault {
    InputFault(message, at: place(of: name))
  }

  /// A member; null counts as missing.
  mutating func value(_ name: String) -> JSONValue? {
    known.append(name)
    guard let value = members.last(where: { $0.key == name })?.value, value != .null else {
      return nil
    }
    return value
  }

  mutating func string(_ name: String, maximumBytes: Int = 4096) throws(InputFault) -> String? {
    guard let value = value(name) else { return nil }
    guard let text = value.string, text.utf8.count <= maximumBytes else {
      throw fault(name, "must be a text of at most \(maximumBytes) bytes")
    }
    return text
  }

  mutating func integer(
    _ name: String, _ range: ClosedRange<Int64>
  ) throws(InputFault) -> Int64? {
    guard let value = value(name) else { return nil }
    guard let number = value.integer, range.contains(number) else {
      throw fault(
        name,
        range.upperBound == .max
          ? "must be a whole number of at least \(range.lowerBound)"
          : "must be a whole number from \(range.lowerBound) to \(range.upperBound)")
    }
    return number
  }

  mutating func number(
    _ name: String, _ range: ClosedRange<Double>
  ) throws(InputFault) -> Double? {
    guard let value = value(name) else { return nil }
    guard let number = value.number, range.contains(number) else {
      throw fault(name, "must be a number from \(range.lowerBound) to \(range.upperBound)")
    }
    return number
  }

  mutating func bool(_ name: String) throws(InputFault) -> Bool? {
    guard let value = value(name) else { return nil }
    guard let bool = value.bool else { throw fault(name, "must be true or false") }
    return bool
  }

  /// One of several words.
  mutating func choice<Choice>(
    _ name: String, _ choices: [(String, Choice)]
  ) throws(InputFault) -> Choice? {
    guard let value = value(name) else { return nil }
    guard let found = choices.first(where: { $0.0 == value.string }) else {
      throw fault(name, "must be one of \(choices.map(\.0).joined(separator: ", "))")
    }
    return found.1
  }

  mutating func environment() throws(InputFault) -> Environment? {
    try choice("environment", Environment.allCases.map { ($0.name, $0) })
  }

  mutating func object(_ name: String) throws(InputFault) -> FieldReader? {
    guard let value = value(name) else { return nil }
    return try FieldReader(value, at: place(of: name))
  }

  func required<Value>(_ value: Value?, _ name: String) throws(InputFault) -> Value {
    guard let value else { throw InputFault("\"\(name)\" is missing", at: place) }
    return value
  }

  /// All members, for objects with arbitrary names.
  mutating func all() -> [JSONObject.Member] {
    known += members.map(\.key)
    return members
  }

  /// Rejects unknown and repeated members.
  func finish() throws(InputFault) {
    var seen: Set<String> = []
    for member in members {
      guard known.contains(member.key) else {
        let names = known.joined(separator: ", ")
        throw fault(
          member.key, "is not known here" + (known.isEmpty ? "" : "; known are \(names)"))
      }
      guard seen.insert(member.key).inserted else {
        throw fault(member.key, "is given twice")
      }
    }
  }
}
