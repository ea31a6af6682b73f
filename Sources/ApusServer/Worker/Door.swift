import ApusCore
import ApusLoop
import ApusModel
import ApusTLS

/// One kind of listener, with what all its connections share.
struct Door: Sendable {
  var kind: DoorConfiguration.Kind
  var environment: Environment
  var context: TLSContext
  var addresses: [SocketAddress]
  /// How a gateway judges notifications.
  var rules: BinaryRules

  var name: String { "\(kind.rawValue) \(environment.name)" }
}
