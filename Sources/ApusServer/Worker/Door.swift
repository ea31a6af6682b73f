import ApusLoop
import ApusModel
import ApusTLS

/// One kind of listener, with what all its connections share.
struct Door: Sendable {
  var kind: DoorConfiguration.Kind
  var environment: Environment
  var context: TLSContext
  var addresses: [SocketAddress]

  var name: String { "\(kind.rawValue) \(environment.name)" }
}
