import ApusCore
import ApusLoop
import ApusModel
import ApusTLS

/// A connection on its way from where it was accepted to the worker that continues with it.
///
/// Unchecked: the sender gives it up before the receiver has it, so no two threads ever hold it.
struct HandedOverConnection: @unchecked Sendable {
  var listener: ServiceListener
  let descriptor: Int32
  let peer: SocketAddress
  /// Whom the gate counts it for.
  let holder: ConnectionHolder
  let tls: TLSConnection
  let acceptedMilliseconds: UInt64
  /// Ciphertext that the socket did not take.
  let unsent: OutputQueue
  /// Plaintext that the protocol has not seen.
  let unread: [UInt8]
  let isPeerFinished: Bool
  /// The protocol's state; nil if the handshake is completed and nothing was said.
  let state: (any HandedOverState)?
}
