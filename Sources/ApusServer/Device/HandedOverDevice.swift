import ApusLoop
import ApusModel
import ApusTLS
import ApusWire

/// A device's connection on its way from the worker that accepted it to the one that owns the device.
///
/// It is given up by the one before the other has it, so no two threads ever hold it.
final class HandedOverDevice: @unchecked Sendable {
  let door: Door
  let descriptor: Int32
  let peer: SocketAddress
  let tls: TLSConnection
  let acceptedMilliseconds: UInt64
  let dialect: CourierALPN
  let identity: DeviceIdentity
  let presentedToken: DeviceToken?
  let framer: CourierFramer
  /// What came behind the connect message.
  let rest: [UInt8]

  init(
    door: Door, descriptor: Int32, peer: SocketAddress, tls: TLSConnection,
    acceptedMilliseconds: UInt64, dialect: CourierALPN,
    identity: DeviceIdentity, presentedToken: DeviceToken?, framer: CourierFramer, rest: [UInt8]
  ) {
    self.door = door
    self.descriptor = descriptor
    self.peer = peer
    self.tls = tls
    self.acceptedMilliseconds = acceptedMilliseconds
    self.dialect = dialect
    self.identity = identity
    self.presentedToken = presentedToken
    self.framer = framer
    self.rest = rest
  }
}
