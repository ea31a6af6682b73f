package import ApusWire
package import Foundation

/// One entry of `Documentation/courier-vectors.json`, which says what each of its members means.
package struct CourierVector: Sendable, CustomStringConvertible {
  package var name: String
  package var isToService: Bool
  /// The whole frame.
  package var bytes: [UInt8]
  /// The message, all values as text; nil for a malformed frame.
  package var decoded: [String: String]?
  /// The fault of a malformed frame.
  package var fault: [String: String]?
  package var isCanonical: Bool
  package var dialect: String
  /// Empty: connected.
  package var stage: String
  /// How the answer begins; empty for none.
  package var reply: [UInt8]
  package var closes: Bool
  /// PKCS#8, DER; empty for none.
  package var privateKey: [UInt8]

  package var description: String { name }
  package var allowsExtensions: Bool { dialect == "apus-courier/1" }

  package static let root = URL(filePath: #filePath).deletingLastPathComponent()
    .deletingLastPathComponent().deletingLastPathComponent()

  /// Empty where the file cannot be read; a test says why.
  package static let all = (try? read()) ?? []

  package static func read() throws -> [CourierVector] {
    let data = try Data(contentsOf: root.appending(path: "Documentation/courier-vectors.json"))
    let text = [UInt8](data)
    let json = try JSONValue(parsing: text.span)
    return (json["vectors"]?.array ?? []).map(CourierVector.init)
  }

  package struct Missing: Error {
    package var name: String
  }

  package static func named(_ name: String) throws -> CourierVector {
    guard let vector = all.first(where: { $0.name == name }) else { throw Missing(name: name) }
    return vector
  }

  init(_ json: JSONValue) {
    name = json["name"]?.string ?? ""
    isToService = json["to"]?.string == "service"
    bytes = Self.bytes(json["hex"])
    decoded = Self.flat(json["decoded"])
    fault = Self.flat(json["error"])
    isCanonical = json["canonical"]?.bool ?? true
    dialect = json["dialect"]?.string ?? "apus-courier/1"
    stage = json["stage"]?.string ?? ""
    reply = Self.bytes(json["reply"])
    closes = json["closes"]?.bool ?? false
    privateKey = Self.bytes(json["privateKey"])
  }

  /// Digits in pieces; `00*31` is 31 bytes of 00.
  private static func bytes(_ json: JSONValue?) -> [UInt8] {
    var bytes: [UInt8] = []
    for piece in json?.array ?? [] {
      for word in (piece.string ?? "").split(separator: " ") {
        let parts = word.split(separator: "*")
        let unit = Hex.decode(Array(parts[0].utf8).span) ?? []
        let count = parts.count == 2 ? Int(parts[1]) ?? 0 : 1
        for _ in 0..<count { bytes += unit }
      }
    }
    return bytes
  }

  private static func flat(_ json: JSONValue?) -> [String: String]? {
    guard let members = json?.object?.members else { return nil }
    var facts: [String: String] = [:]
    for member in members {
      if let pieces = member.value.array {
        facts[member.key] = pieces.compactMap(\.string).joined()
      } else if let number = member.value.integer {
        facts[member.key] = "\(number)"
      } else {
        facts[member.key] = member.value.string
      }
    }
    return facts
  }

  /// A fault in the words of the vectors.
  package static func facts(of fault: CourierFault) -> [String: String] {
    switch fault {
    case .commandZero: ["kind": "commandZero"]
    case .frameTooLong(let command, let length):
      ["kind": "frameTooLong", "command": "\(command)", "length": "\(length)"]
    case .truncatedField(let command, let offset):
      ["kind": "truncatedField", "command": "\(command)", "offset": "\(offset)"]
    case .badField(let command, let id, let length):
      [
        "kind": "badField", "command": "\(command)", "field": "\(id)", "length": "\(length)",
      ]
    case .missingField(let command, let id):
      ["kind": "missingField", "command": "\(command)", "field": "\(id)"]
    case .tooManyTopics: ["kind": "tooManyTopics"]
    }
  }
}
