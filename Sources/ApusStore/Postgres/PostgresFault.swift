/// Why the database did not do what was asked of it.
enum PostgresFault: Error, Sendable, Hashable, CustomStringConvertible {
  /// There is no connection: the server is not reached, or closed it. What was in progress may have been done.
  case connection(String)
  /// The server did not answer in time; the connection is not usable any more.
  case deadline(milliseconds: Int64)
  /// The server refused a statement and rolled back its transaction. `state` is the SQLSTATE.
  case server(state: String, message: String)
  /// libpq cannot be loaded.
  case library(String)

  /// The database has done nothing of what was asked.
  var isRolledBack: Bool {
    if case .server = self { true } else { false }
  }

  /// Whether the statement divided by zero, which is how a group fails whose lane is not there.
  var isOfFence: Bool {
    if case .server(state: "22012", _) = self { true } else { false }
  }

  var description: String {
    switch self {
    case .connection(let text): text
    case .deadline(let milliseconds): "no answer within \(milliseconds) ms"
    case .server(let state, let message): "\(message) (SQLSTATE \(state))"
    case .library(let text): "cannot use libpq (install Debian's package libpq5): \(text)"
    }
  }
}
