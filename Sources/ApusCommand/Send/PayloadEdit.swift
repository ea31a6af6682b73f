package import ApusWire

/// A key of the payload and its value, as in `--set aps.thread-id=chat`.
package struct PayloadEdit: Sendable, Equatable {
  /// The keys, outermost first.
  package var path: [String]
  package var value: JSONValue

  /// Sets the value. Creates missing objects on the path, and replaces values on the path that are not objects.
  package func apply(to payload: inout JSONValue) { Self.set(path[...], value, in: &payload) }

  private static func set(_ path: ArraySlice<String>, _ value: JSONValue, in json: inout JSONValue)
  {
    guard let key = path.first else {
      json = value
      return
    }
    var object = json.object ?? JSONObject()
    var member = object[key] ?? .object(JSONObject())
    set(path.dropFirst(), value, in: &member)
    if let index = object.members.lastIndex(where: { $0.key == key }) {
      object.members[index].value = member
    } else {
      object.members.append(JSONObject.Member(key: key, value: member))
    }
    json = .object(object)
  }
}

extension ValueSyntax where Value == PayloadEdit {
  static var payloadEdit: ValueSyntax {
    ValueSyntax("KEY=VALUE") { text throws(ValueProblem) in
      guard let equals = text.firstIndex(of: "="), equals > text.startIndex else {
        throw ValueProblem("is not a key and a value such as aps.thread-id=chat")
      }
      let path = text[..<equals].split(separator: ".", omittingEmptySubsequences: false)
      guard path.allSatisfy({ !$0.isEmpty }) else {
        throw ValueProblem("has an empty part in the key")
      }
      let value = String(text[text.index(after: equals)...])
      return PayloadEdit(
        path: path.map(String.init), value: JSONValue(text: value) ?? .string(value))
    }
  }
}

/// Shortens a notification's text at its end so that the payload fits.
package enum PayloadShortening {
  /// The shortened payload; nil if it has no body, is not JSON, or is too large even without a body.
  package static func shorten(_ payload: String, toBytes limit: Int) -> String? {
    guard payload.utf8.count > limit, var json = JSONValue(text: payload) else { return nil }
    let path = json["aps"]?["alert"]?.object == nil ? ["aps", "alert"] : ["aps", "alert", "body"]
    guard let body = path.reduce(json as JSONValue?, { $0?[$1] })?.string else { return nil }
    let rest = json.bytes.count - JSONText.quotedByteCount(body)
    guard let text = JSONText.prefix(of: body, quotedBytes: limit - rest, ending: "…") else {
      return nil
    }
    PayloadEdit(path: path, value: .string(text)).apply(to: &json)
    return json.text
  }
}
