import CPostgres

/// Where a database is: a connection string of libpq, which may name several hosts.
package struct PostgresAddress: Sendable, Hashable, CustomStringConvertible {
  /// With user and password.
  package let text: String
  /// Without them, for messages: "postgresql://db1,db2/apus".
  package let description: String

  package enum Problem: Error, Sendable, Hashable, CustomStringConvertible {
    case notAURL
    case unreadable(String)
    case library(String)

    package var description: String {
      switch self {
      case .notAURL: "a database's address begins with postgresql://"
      case .unreadable(let reason): "libpq cannot read the address: \(reason)"
      case .library(let reason): "\(PostgresFault.library(reason))"
      }
    }
  }

  private static let schemes = ["postgresql://", "postgres://"]

  /// Whether a text is meant as the address of a database.
  package static func isAddress(_ text: String) -> Bool {
    schemes.contains { text.hasPrefix($0) }
  }

  package init(_ text: String) throws(Problem) {
    guard Self.isAddress(text) else { throw .notAURL }
    if let reason = PostgresLibrary.fault { throw .library(reason) }
    var message: UnsafeMutablePointer<CChar>?
    guard let options = unsafe cpq_parse(text, &message) else {
      let reason = unsafe message.map { unsafe String(cString: $0) } ?? "out of memory"
      unsafe cpq_free(message)
      throw .unreadable(reason.trimmed)
    }
    defer { unsafe cpq_parse_free(options) }
    self.text = text
    let hosts = unsafe Self.value("host", in: options) ?? "localhost"
    let ports = unsafe Self.value("port", in: options).map { $0 == "5432" ? "" : ":\($0)" } ?? ""
    let database = unsafe Self.value("dbname", in: options) ?? ""
    description = "postgresql://\(hosts)\(ports)/\(database)"
  }

  private static func value(
    _ name: String, in options: UnsafeMutablePointer<PQconninfoOption>
  ) -> String? {
    var option = unsafe options
    while let keyword = unsafe option.pointee.keyword {
      if unsafe String(cString: keyword) == name {
        return unsafe option.pointee.val.map { unsafe String(cString: $0) }
      }
      unsafe option += 1
    }
    return nil
  }
}

enum PostgresLibrary {
  /// Why libpq cannot be used; nil if it is loaded.
  static let fault: String? = unsafe cpq_load().map { unsafe String(cString: $0) }
}

extension String {
  /// Without the line break at the end of libpq's messages.
  var trimmed: String {
    var text = self[...]
    while text.last?.isWhitespace == true { text.removeLast() }
    return String(text.map { $0.isNewline ? " " : $0 })
  }
}
