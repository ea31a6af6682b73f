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

  let door: Door
  let descriptor: Int32
  let peer: SocketAddress
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

/// A device that has said who it is.
final class HandedOverDevice {
  let dialect: CourierALPN
  let identity: DeviceIdentity
  let presentedToken: DeviceToken?
  let framer: CourierFramer

  init(
    dialect: CourierALPN, identity: DeviceIdentity, presentedToken: DeviceToken?,
    framer: CourierFramer
  ) {
    self.dialect = dialect
    self.identity = identity
    self.presentedToken = presentedToken
    self.framer = framer
  }
}
