import ApusCore
import ApusHTTP2
import ApusLoop
import ApusModel
import ApusTLS
import ApusWire

/// A connection on its way from where it was accepted to the worker that goes on with it.
///
/// Unchecked: it is given up by the one before the other has it, so no two threads ever hold it.
struct HandedOverConnection: @unchecked Sendable {
  /// How far its protocol has come.
  enum State {
    /// The handshake is completed, and nothing was said.
    case established
    case provider(HandedOverProvider)
    case device(HandedOverDevice)
  }

  let listener: ServiceListener
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
  let state: State
}

/// A provider that has shown a valid credential, with the requests that it has begun.
final class HandedOverProvider {
  let session: HTTP2ServerSession
  var sender: ProviderConnection

  init(_ session: HTTP2ServerSession, _ sender: consuming ProviderConnection) {
    self.session = session
    self.sender = sender
  }
}

/// A device that has said who it is. In memory of its own, which a quiet device does not need.
final class HandedOverDevice {
  let dialect: CourierALPN
  let identity: DeviceIdentity
  let presentedToken: DeviceToken?
  var framer = CourierFramer()
  /// What came behind the connect message.
  var unread: [UInt8] = []

  init(_ dialect: CourierALPN, _ identity: DeviceIdentity, presentedToken: DeviceToken?) {
    self.dialect = dialect
    self.identity = identity
    self.presentedToken = presentedToken
  }
}
