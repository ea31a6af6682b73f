import ApusCore
import ApusModel
import ApusServer
import ApusTLS

/// The listeners of a simulated service, by index.
struct SimulationDoor {
  var configuration: DoorConfiguration
  var protocols: [String]

  static let all: [SimulationDoor] = {
    var doors: [SimulationDoor] = []
    for environment in Environment.allCases {
      doors.append(door(.provider, environment, ["h2"]))
      doors.append(door(.courier, environment, ["apus-courier/1", "apns-security-v2"]))
    }
    for confirms in [false, true] {
      var rules = BinaryRules.standard
      rules.confirmsAccepted = confirms
      doors.append(door(.gateway, .production, [], rules: rules))
    }
    doors.append(door(.feedback, .production, []))
    return doors
  }()

  private static func door(
    _ kind: ListenerKind, _ environment: Environment, _ protocols: [String],
    rules: BinaryRules = .standard
  ) -> SimulationDoor {
    SimulationDoor(
      configuration: DoorConfiguration(
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

  func configuration(_ canary: SimulationCanary?) -> DoorConfiguration {
    var door = configuration
    if canary == .takesBadPayloads { door.rules.acceptsAnyPayload = true }
    return door
  }

  func serverContext(_ credentials: SimulationCredentials) throws -> TLSContext {
    try TLSContext(
      plain: PlainConfiguration(
        role: .server(
          demandsCertificate: configuration.kind == .gateway || configuration.kind == .feedback),
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
