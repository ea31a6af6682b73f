import ApusEmbedded
import ApusModel

/// The parts of `postgresql.sql`.
package struct PostgresStatements: Sendable {
  /// The whole file, with the schema of part 0.
  package static var file: String {
    String(decoding: EmbeddedFile.postgresql.bytes, as: UTF8.self).replacing(
      "{schema}", with: schema(0))
  }

  /// The name of a part's schema, and of its lease.
  static func schema(_ part: Int) -> String { part == 0 ? "apus" : "apus_\(part)" }

  /// The part whose schema has that name.
  static func part(ofSchema name: String) -> Int? {
    (0..<Limits.deviceParts).first { schema($0) == name }
  }

  private let parts: [String: String]

  /// For part 0 of a cluster's devices, and what the nodes share.
  static let all = PostgresStatements(parsing: EmbeddedFile.postgresql.bytes, part: 0)

  /// For the tables of a part of a cluster's devices.
  static func of(part: Int) -> PostgresStatements {
    part == 0 ? all : PostgresStatements(parsing: EmbeddedFile.postgresql.bytes, part: part)
  }

  private let part: Int

  /// Statements that a connection prepares once, for each family where they name one.
  static let ofReaders: [Statement] = [.get, .scan, .scanToEnd, .mailboxes, .expired]
  static let ofWriters: [Statement] = [.fence, .deleteRange, .delete, .put]

  enum Statement: String, Sendable {
    case server, service, connections, lease, incarnation, claim, renew, release, lane
    case disconnect, session, moved, holder, fence, put, delete, get, scan, mailboxes, expired
    case nodes, directory, invitation, era, leases, keys, move
    case eraRaise = "era-raise"
    case nodesExist = "nodes-exist"
    case nodeAdd = "node-add"
    case nodeRemove = "node-remove"
    case nodeDrain = "node-drain"
    case nodeSign = "node-sign"
    case directoryMake = "directory-make"
    case directoryLock = "directory-lock"
    case leaseHeld = "lease-held"
    case leasesLock = "leases-lock"
    case directoryDivide = "directory-divide"
    case channelsCopy = "channels-copy"
    case numbers, lanes
    case numbersPut = "numbers-put"
    case lanePut = "lane-put"
    case schemaDrop = "schema-drop"
    case broadcasts
    case directoryRaise = "directory-raise"
    case filesChanged = "files-changed"
    case filesInParts = "files-in-parts"
    case fileParts = "file-parts"
    case fileSizes = "file-sizes"
    case fileCut = "file-cut"
    case filePut = "file-put"
    case fileRemove = "file-remove"
    case filesForget = "files-forget"
    case invitationAdd = "invitation-add"
    case invitationTake = "invitation-take"
    case invitationsExpire = "invitations-expire"
    case schemaExists = "schema-exists"
    case schemaLock = "schema-lock"
    case deleteRange = "delete-range"
    case scanToEnd = "scan-to-end"

    /// Whether there is one for each family.
    var isOfFamily: Bool {
      switch self {
      case .put, .delete, .deleteRange, .get, .scan, .scanToEnd, .keys, .move: true
      default: false
      }
    }
  }

  init(parsing file: [UInt8], part: Int) {
    let schema = Self.schema(part)
    var parts: [String: String] = [:]
    var name = ""
    for line in String(decoding: file, as: UTF8.self).split(separator: "\n") {
      if line.hasPrefix("--@ ") {
        name = String(line.dropFirst(4))
      } else if !line.hasPrefix("--") {
        parts[name, default: ""] += line.replacing("{schema}", with: schema) + "\n"
      }
    }
    (self.parts, self.part) = (parts, part)
  }

  func text(_ statement: Statement) -> String { text(statement.rawValue) }

  func text(_ statement: Statement, of family: StoreFamily) -> String {
    text(statement.rawValue).replacing("{family}", with: "\(family.name)")
  }

  /// Moves rows of a family to the tables of another part.
  func move(_ family: StoreFamily, to part: Int) -> String {
    text(.move, of: family).replacing("{target}", with: Self.schema(part))
  }

  /// Copies channels to the tables of another part.
  func channelsCopy(to part: Int) -> String {
    text(.channelsCopy).replacing("{target}", with: Self.schema(part))
  }

  var settings: [String] { Self.commands(text("settings")) }

  /// Creates the tables, in version 1.
  var schema: [String] {
    Self.commands(text("schema")) + ofCluster("schema")
      + StoreFamily.allCases.flatMap { family in
        Self.commands(text("table").replacing("{family}", with: "\(family.name)"))
      }
  }

  /// Changes the tables of an earlier version into those of the newest.
  func migration(from version: Int) -> [String] {
    guard version < PostgresTables.version else { return [] }
    return (version + 1...PostgresTables.version).flatMap { next in
      Self.commands(text("schema-\(next)")) + ofCluster("schema-\(next)")
    }
  }

  /// What exists once, whatever the number of parts.
  private func ofCluster(_ name: String) -> [String] {
    part == 0 ? Self.commands(parts["\(name)-cluster"] ?? "") : []
  }

  private func text(_ name: String) -> String {
    guard let text = parts[name] else { preconditionFailure("postgresql.sql has no part \(name)") }
    return text
  }

  private static func commands(_ text: String) -> [String] {
    text.split(separator: ";\n").map { String($0) }.filter { !$0.allSatisfy(\.isWhitespace) }
  }
}
