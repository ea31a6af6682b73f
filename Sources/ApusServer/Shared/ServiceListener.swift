import ApusCore
import ApusDirectory
import ApusLoop
import ApusModel
import ApusTLS

/// One kind of listener, with what all its connections share.
final class ServiceListener: Sendable {
  let kind: ListenerKind
  let environment: Environment
  let context: TLSContext
  /// Those that the context verifies clients' certificates against.
  let authorities: Authorities
  let addresses: [SocketAddress]
  /// How a gateway judges notifications.
  let rules: BinaryRules
  /// The proxies that may connect, each of which names its client first; nil if clients connect themselves.
  let proxies: [AddressRange]?
  /// Which of the listeners of its kind and environment, from 0 on.
  let ordinal: Int

  init(
    kind: ListenerKind, environment: Environment, context: TLSContext,
    authorities: Authorities, addresses: [SocketAddress], rules: BinaryRules,
    proxies: [AddressRange]? = nil, ordinal: Int = 0
  ) {
    self.kind = kind
    self.environment = environment
    self.context = context
    self.authorities = authorities
    self.addresses = addresses
    self.rules = rules
    self.proxies = proxies
    self.ordinal = ordinal
  }

  var name: String { "\(kind.rawValue) \(environment.name)" }

  /// The same with another context, for the connections to come.
  func with(context: TLSContext, authorities: Authorities) -> ServiceListener {
    ServiceListener(
      kind: kind, environment: environment, context: context, authorities: authorities,
      addresses: addresses, rules: rules, proxies: proxies, ordinal: ordinal)
  }

  /// The same at the addresses that were bound.
  func with(addresses: [SocketAddress]) -> ServiceListener {
    ServiceListener(
      kind: kind, environment: environment, context: context, authorities: authorities,
      addresses: addresses, rules: rules, proxies: proxies, ordinal: ordinal)
  }
}
