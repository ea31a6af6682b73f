import ApusEmbedded
import ApusModel

/// The parts of `postgresql.sql`.
package struct PostgresStatements: Sendable {
  /// The whole file.
  package static var file: String { String(decoding: EmbeddedFile.postgresql.bytes, as: UTF8.self) }

  private let parts: [String: String]

  static let all = PostgresStatements(parsing: EmbeddedFile.postgresql.bytes)

  /// Statements that a connection prepares once, for each family where they name one.
  static let ofReaders: [Statement] = [.get, .scan, .scanToEnd, .mailboxes, .expired]
  static let ofWriters: [Statement] = [.fence, .deleteRange, .delete, .put]

  enum Statement: String, Sendable {
    case server, service, connections, lease, incarnation, claim, renew, release, lane
    case disconnect, session, moved, holder, fence, put, delete, get, scan, mailboxes, expired
    case schemaExists = "schema-exists"
    case schemaLock = "schema-lock"
    case deleteRange = "delete-range"
    case scanToEnd = "scan-to-end"

    /// Whether there is one for each family.
    var isOfFamily: Bool {
      switch self {
      case .put, .delete, .deleteRange, .get, .scan, .scanToEnd: true
      default: false
      }
    }
  }

  init(parsing file: [UInt8]) {
    var parts: [String: String] = [:]
    var name = ""
    for line in String(decoding: file, as: UTF8.self).split(separator: "\n") {
      if line.hasPrefix("--@ ") {
        name = String(line.dropFirst(4))
      } else if !line.hasPrefix("--") {
        parts[name, default: ""] += line + "\n"
      }
    }
    self.parts = parts
  }

  func text(_ statement: Statement) -> String { part(statement.rawValue) }

  func text(_ statement: Statement, of family: StoreFamily) -> String {
    part(statement.rawValue).replacing("{family}", with: "\(family.name)")
  }

  var settings: [String] { Self.commands(part("settings")) }

  /// Creates the tables.
  var schema: [String] {
    Self.commands(part("schema"))
      + StoreFamily.allCases.flatMap { family in
        Self.commands(part("table").replacing("{family}", with: "\(family.name)"))
      }
  }

  private func part(_ name: String) -> String {
    guard let text = parts[name] else { preconditionFailure("postgresql.sql has no part \(name)") }
    return text
  }

  private static func commands(_ text: String) -> [String] {
    text.split(separator: ";\n").map { String($0) }.filter { !$0.allSatisfy(\.isWhitespace) }
  }
}
