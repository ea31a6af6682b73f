/// What a token or a user may do through the administration.
public struct AdminScopes: OptionSet, Sendable, Hashable {
  public let rawValue: UInt8

  public init(rawValue: UInt8) { self.rawValue = rawValue }

  /// Read the service's status, records, counters, ledger and audit log. None of these contains a secret.
  public static let read = AdminScopes(rawValue: 1)
  /// Send notifications.
  public static let send = AdminScopes(rawValue: 2)
  /// Manage devices: approve, reject and retire them, and create enrolment codes.
  public static let operate = AdminScopes(rawValue: 4)
  /// Manage trust: teams, apps, provider keys, certificates, authorities.
  public static let trust = AdminScopes(rawValue: 8)

  public static let all: AdminScopes = [.read, .send, .operate, .trust]

  /// Each scope with its name, in the order in which lists show them.
  public static let names: [(name: String, scope: AdminScopes)] = [
    ("read", .read), ("send", .send), ("operate", .operate), ("trust", .trust),
  ]

  /// The scopes with those they imply: `operate` and `trust` imply `read`, because a token that may change something
  /// may see it. `trust` implies neither `operate` nor `send`. `send` implies nothing, so a program that holds it
  /// cannot list devices or apps.
  public var effective: AdminScopes {
    isDisjoint(with: [.operate, .trust]) ? self : union(.read)
  }

  /// The names.
  public var list: [String] { Self.names.filter { contains($0.scope) }.map(\.name) }

  /// The names, separated by commas.
  public var text: String { list.joined(separator: ",") }

  /// Reads names separated by commas or spaces; nil if there is none, or an unknown one.
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
