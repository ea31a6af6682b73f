/// What whoever administers a service may do there.
public struct AdminScopes: OptionSet, Sendable, Hashable {
  public let rawValue: UInt8

  public init(rawValue: UInt8) { self.rawValue = rawValue }

  /// See how the service is: its status, records, counters, ledger and audit log. No secret is among it.
  public static let read = AdminScopes(rawValue: 1)
  /// Send notifications.
  public static let send = AdminScopes(rawValue: 2)
  /// Decide about devices: approve, reject and retire them, and make enrolment codes.
  public static let operate = AdminScopes(rawValue: 4)
  /// Decide who is trusted: teams, apps, provider keys, certificates, authorities.
  public static let trust = AdminScopes(rawValue: 8)

  public static let all: AdminScopes = [.read, .send, .operate, .trust]

  /// Each scope by its name, in the order of their lists.
  public static let names: [(name: String, scope: AdminScopes)] = [
    ("read", .read), ("send", .send), ("operate", .operate), ("trust", .trust),
  ]

  /// With what the scopes bring along: who may change something may see it, so `operate` and `trust` bring `read`.
  /// `trust` does not bring `operate`, nor `send`, and `send` brings nothing: it may be given to a program that must
  /// not learn who there is.
  public var effective: AdminScopes {
    isDisjoint(with: [.operate, .trust]) ? self : union(.read)
  }

  /// The names.
  public var list: [String] { Self.names.filter { contains($0.scope) }.map(\.name) }

  /// The names between commas.
  public var text: String { list.joined(separator: ",") }

  /// Reads names between commas or spaces; nil where there is none, or one that is unknown.
  public init?(text: some StringProtocol) {
    var scopes: AdminScopes = []
    for word in text.split(whereSeparator: { $0 == "," || $0 == " " }) {
      guard let known = Self.names.first(where: { $0.name == word }) else { return nil }
      scopes.formUnion(known.scope)
    }
    guard !scopes.isEmpty else { return nil }
    self = scopes
  }
}
