import ApusCore
import ApusModel
import ApusServer
import ApusTLS

/// The listeners of a simulated service, by index.
struct SimulationListener {
  var configuration: ListenerConfiguration
  var protocols: [String]

  static let all: [SimulationListener] = {
    var listeners: [SimulationListener] = []
    for environment in Environment.allCases {
      listeners.append(listener(.provider, environment, ["h2"]))
      listeners.append(listener(.courier, environment, ["apus-courier/1", "apns-security-v2"]))
    }
    for confirms in [false, true] {
      var rules = BinaryRules.standard
      rules.confirmsAccepted = confirms
      listeners.append(listener(.gateway, .production, [], rules: rules))
    }
    listeners.append(listener(.feedback, .production, []))
    for environment in Environment.allCases {
      listeners.append(listener(.channels, environment, ["h2"]))
    }
    listeners.append(listener(.link, .production, [LinkTarget.applicationProtocol]))
    return listeners
  }()

  private static func listener(
    _ kind: ListenerKind, _ environment: Environment, _ protocols: [String],
    rules: BinaryRules = .standard
  ) -> SimulationListener {
    SimulationListener(
      configuration: ListenerConfiguration(
        kind: kind, environment: environment, addresses: [], rules: rules),
      protocols: protocols)
  }

  static func index(_ kind: ListenerKind, _ environment: Environment) -> Int {
    guard
      let index = all.firstIndex(where: {
        $0.configuration.kind == kind && $0.configuration.environment == environment
      })
    else { preconditionFailure("no such listener") }
    return index
  }

  static func gateway(confirms: Bool) -> Int {
    guard
      let index = all.firstIndex(where: {
        $0.configuration.kind == .gateway && $0.configuration.rules.confirmsAccepted == confirms
      })
    else { preconditionFailure("no such listener") }
    return index
  }

  func configuration(_ canary: SimulationCanary?) -> ListenerConfiguration {
    var listener = configuration
    if canary == .takesBadPayloads { listener.rules.acceptsAnyPayload = true }
    return listener
  }

  func serverContext(_ credentials: SimulationCredentials) throws -> TLSContext {
    try TLSContext(
      plain: PlainConfiguration(
        role: .server(
          demandsCertificate: [.gateway, .feedback, .link].contains(configuration.kind)),
        applicationProtocols: protocols, certificates: credentials.certificates))
  }
}

extension SimulationCredentials {
  func clientContext(certificate: Int?, protocols: [String]) throws -> TLSContext {
    try TLSContext(
      plain: PlainConfiguration(
        role: .client(certificate: certificate), applicationProtocols: protocols,
        certificates: certificates))
  }
}
