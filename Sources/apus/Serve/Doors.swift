import ApusCommand
import ApusCore
import ApusDirectory
import ApusLoop
import ApusModel
import ApusServer

/// A listener of the service, as the options and the ready message name it.
struct NamedDoor {
  /// The member's name in the `ready` object.
  var name: String
  /// The name in text output.
  var title: String
  var kind: ListenerKind
  var environment: Environment
  var option: Option<ListenAddresses>

  /// In the order of the ready message.
  static let all = [
    NamedDoor(
      name: "http2", title: "providers, production", kind: .provider, environment: .production,
      option: ApusOptions.http2Listen),
    NamedDoor(
      name: "http2_development", title: "providers, development", kind: .provider,
      environment: .development, option: ApusOptions.http2DevelopmentListen),
    NamedDoor(
      name: "courier", title: "devices, production", kind: .courier, environment: .production,
      option: ApusOptions.courierListen),
    NamedDoor(
      name: "courier_development", title: "devices, development", kind: .courier,
      environment: .development, option: ApusOptions.courierDevelopmentListen),
    NamedDoor(
      name: "gateway", title: "legacy senders, production", kind: .gateway,
      environment: .production,
      option: ApusOptions.gatewayListen),
    NamedDoor(
      name: "gateway_development", title: "legacy senders, development", kind: .gateway,
      environment: .development, option: ApusOptions.gatewayDevelopmentListen),
    NamedDoor(
      name: "feedback", title: "feedback, production", kind: .feedback, environment: .production,
      option: ApusOptions.feedbackListen),
    NamedDoor(
      name: "feedback_development", title: "feedback, development", kind: .feedback,
      environment: .development, option: ApusOptions.feedbackDevelopmentListen),
  ]
}

/// The addresses of a listener that have the same modifiers.
struct Opening {
  var door: NamedDoor
  var modifiers: Set<ListenModifier>
  var configuration: DoorConfiguration

  /// All that the options configure, without listeners that are off.
  static func all(_ invocation: Invocation) throws(CommandFailure) -> [Opening] {
    var openings: [Opening] = []
    var taken: [(address: HostPort, flag: String)] = []
    for door in NamedDoor.all {
      for group in invocation.value(door.option).groups {
        let addresses = try addresses(group.places, for: door.option, invocation)
        for address in addresses.compactMap({ HostPort($0.description) }) {
          if let other = taken.first(where: { $0.address.collides(with: address) }) {
            throw invocation.failure(
              about: door.option, "\(address) collides with \(other.address) of \(other.flag)",
              remedy: "Choose another port, or give each address once.")
          }
          taken.append((address, door.option.description.flag))
        }
        openings.append(Opening(door, group.modifiers, addresses))
      }
    }
    return openings
  }

  private init(
    _ door: NamedDoor, _ modifiers: Set<ListenModifier>, _ addresses: [SocketAddress]
  ) {
    var rules: BinaryRules =
      if modifiers.contains(.strict) {
        .strict
      } else if modifiers.contains(.lenient) {
        .lenient
      } else {
        .standard
      }
    rules.confirmsAccepted = modifiers.contains(.confirm)
    self.door = door
    self.modifiers = modifiers
    configuration = DoorConfiguration(
      kind: door.kind, environment: door.environment, addresses: addresses, rules: rules,
      allowsLegacyTLS: modifiers.contains(.legacyTLS))
  }

  static func addresses(
    _ places: [ListenAddress.Place], for option: Option<ListenAddresses>, _ invocation: Invocation
  ) throws(CommandFailure) -> [SocketAddress] {
    var addresses: [SocketAddress] = []
    for place in places {
      switch place {
      case .everywhere(let port):
        addresses.append(.anyIPv4(port: port))
        // A kernel without IPv6 cannot listen on [::].
        if hasIPv6 { addresses.append(.anyIPv6(port: port)) }
      case .address(let address):
        do throws(SocketError) {
          addresses.append(try SocketAddress(address.description))
        } catch {
          throw invocation.failure(about: option, "\(error)")
        }
      }
    }
    return addresses
  }

  private static let hasIPv6 = !((try? Files.read("/proc/net/if_inet6")) ?? []).isEmpty
}
