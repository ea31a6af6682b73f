import ApusCore
import ApusModel

/// The protocol on a connection, which its subclasses speak.
///
/// A class, because calls are frequent and each connection has exactly one: a call through its table of methods needs
/// neither an existential nor a copy.
class ConnectionDriver {
  /// Strong, because access through an unowned reference costs a retain and a release, a dozen times a request. The
  /// connection releases its driver when it ends.
  let connection: Connection
  let context: WorkerContext

  init(_ connection: Connection) {
    self.connection = connection
    context = connection.context
  }

  /// Takes plaintext from the peer.
  func receive(_ bytes: UnsafeRawBufferPointer) {}

  /// Encrypts what the protocol has to say, while the connection takes it, and says how the connection goes on. Called
  /// at the end of a turn.
  func flush() -> Connection.Ending { .none }

  /// Whether nothing more is to be read for now.
  var wantsPause: Bool { false }

  /// Whether the protocol must learn if the peer has received its last bytes. Then it is told of the end only when the
  /// peer or its system has confirmed them, or did not in time.
  var awaitsConfirmation: Bool { false }

  /// The peer shut its side of the connection.
  func peerFinished() { connection.close() }

  /// The connection's deadline has come.
  func deadlineReached() {}

  /// The trust was replaced, or the clock jumped.
  ///
  /// - Parameter hasLostAuthority: Whether an authority of devices is no longer trusted.
  func trustChanged(hasLostAuthority: Bool) {}

  /// The service shuts down.
  func drain() {}

  /// A notification of this connection was decided on, or there is a notice about it. For protocols without
  /// `OpenRequests`.
  func decided(_ verdict: Verdict) {}

  /// The connection has ended.
  func connectionClosed(_ end: Connection.End) {}

  /// Gives up what the worker needs that continues with the connection.
  func leave() -> any HandedOverState {
    preconditionFailure("this protocol does not move to another worker")
  }
}

/// What a protocol gives up to the worker that continues with its connection.
protocol HandedOverState: AnyObject {
  /// The device whose owner continues; nil for a provider.
  var device: DeviceID? { get }
  /// Plaintext that belongs before what the connection has not read.
  var unread: [UInt8] { get }
}
