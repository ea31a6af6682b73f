import ApusCommand
import ApusCore
import ApusDirectory
import ApusLoop
import ApusModel
import ApusServer

/// A listener of the service, as the options and the ready message name it.
struct NamedListener {
  /// The member's name in the `ready` object.
  var name: String
  /// The name in text output.
  var title: String
  var kind: ListenerKind
  var environment: Environment
  var option: Option<ListenAddresses>

  /// In the order of the ready message.
  static let all = [
    NamedListener(
      name: "http2", title: "providers, production", kind: .provider, environment: .production,
      option: ApusOptions.http2Listen),
    NamedListener(
      name: "http2_development", title: "providers, development", kind: .provider,
      environment: .development, option: ApusOptions.http2DevelopmentListen),
    NamedListener(
      name: "courier", title: "devices, production", kind: .courier, environment: .production,
      option: ApusOptions.courierListen),
    NamedListener(
      name: "courier_development", title: "devices, development", kind: .courier,
      environment: .development, option: ApusOptions.courierDevelopmentListen),
    NamedListener(
      name: "gateway", title: "legacy senders, production", kind: .gateway,
      environment: .production,
      option: ApusOptions.gatewayListen),
    NamedListener(
      name: "gateway_development", title: "legacy senders, development", kind: .gateway,
      environment: .development, option: ApusOptions.gatewayDevelopmentListen),
    NamedListener(
      name: "feedback", title: "feedback, production", kind: .feedback, environment: .production,
      option: ApusOptions.feedbackListen),
    NamedListener(
      name: "feedback_development", title: "feedback, development", kind: .feedback,
      environment: .development, option: ApusOptions.feedbackDevelopmentListen),
    NamedListener(
      name: "channels", title: "channels, production", kind: .channels, environment: .production,
      option: ApusOptions.channelsListen),
    NamedListener(
      name: "channels_development", title: "channels, development", kind: .channels,
      environment: .development, option: ApusOptions.channelsDevelopmentListen),
  ]
}

/// The addresses of a listener that have the same modifiers.
struct Opening {
  var listener: NamedListener
  var modifiers: Set<ListenModifier>
  var configuration: ListenerConfiguration

  /// All that the options configure, without listeners that are off.
  static func all(_ invocation: Invocation) throws(CommandFailure) -> [Opening] {
    var openings: [Opening] = []
    var taken: [(address: HostPort, flag: String)] = []
    let proxies = try proxies(invocation)
    let certificates = try invocation.serverCertificates()
    for listener in NamedListener.all {
      for group in invocation.value(listener.option).groups {
        let addresses = try addresses(group.endpoints, for: listener.option, invocation)
        for address in addresses.compactMap({ HostPort($0.description) }) {
          if let other = taken.first(where: { $0.address.collides(with: address) }) {
            throw invocation.failure(
              about: listener.option, "\(address) collides with \(other.address) of \(other.flag)",
              remedy: "Choose another port, or give each address once.")
          }
          taken.append((address, listener.option.description.flag))
        }
        var opening = Opening(listener, group.modifiers, addresses, proxies)
        opening.configuration.serverCertificate = certificates[listener.socketName]
        openings.append(opening)
      }
    }
    return openings
  }

  private static func proxies(_ invocation: Invocation) throws(CommandFailure) -> [AddressRange] {
    var proxies: [AddressRange] = []
    for text in invocation.value(ApusOptions.proxyFrom) {
      guard let range = AddressRange(text) else {
        throw invocation.failure(
          about: ApusOptions.proxyFrom, "\(text) is not an address",
          remedy: "Give numeric addresses, such as 192.0.2.7 or 2001:db8::/32.")
      }
      proxies.append(range)
    }
    return proxies
  }

  private init(
    _ listener: NamedListener, _ modifiers: Set<ListenModifier>, _ addresses: [SocketAddress],
    _ proxies: [AddressRange]
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
    self.listener = listener
    self.modifiers = modifiers
    configuration = ListenerConfiguration(
      kind: listener.kind, environment: listener.environment, addresses: addresses, rules: rules,
      allowsLegacyTLS: modifiers.contains(.legacyTLS),
      proxies: modifiers.contains(.proxy) ? proxies : nil)
  }

  static func addresses(
    _ endpoints: [ListenAddress.Endpoint], for option: Option<ListenAddresses>,
    _ invocation: Invocation
  ) throws(CommandFailure) -> [SocketAddress] {
    var addresses: [SocketAddress] = []
    for endpoint in endpoints {
      switch endpoint {
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
