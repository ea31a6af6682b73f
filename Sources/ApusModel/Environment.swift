/// The two environments of APNs: a token, a key or a certificate of one is invalid in the other.
///
/// Source: "Registering your app with APNs". Every listener of the service belongs to one environment.
public enum Environment: UInt8, Sendable, CaseIterable, Hashable {
  case production = 0
  case development = 1

  /// The name used in configuration, on the command line and in logs.
  public var name: String {
    switch self {
    case .production: "production"
    case .development: "development"
    }
  }

  /// Reads `production`, `development`, or `sandbox`, APNs's other name for the latter.
  public init?(name: String) {
    switch name {
    case "production": self = .production
    case "development", "sandbox": self = .development
    default: return nil
    }
  }

  /// The opposite environment.
  public var other: Environment { self == .production ? .development : .production }
}

/// A set of environments: where a key or a certificate is valid.
public struct EnvironmentSet: OptionSet, Sendable, Hashable {
  public let rawValue: UInt8

  public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let production = EnvironmentSet(rawValue: 1)
  public static let development = EnvironmentSet(rawValue: 2)
  public static let both: EnvironmentSet = [.production, .development]

  /// Whether `environment` is in the set.
  public func contains(_ environment: Environment) -> Bool {
    rawValue & (1 << environment.rawValue) != 0
  }

  /// The set with one member.
  public init(_ environment: Environment) { self.init(rawValue: 1 << environment.rawValue) }
}
