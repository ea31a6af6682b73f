import ApusCore
import ApusModel
import ApusWire

/// A device that has said who it is. In memory of its own, which a quiet device does not need.
final class HandedOverDevice: HandedOverState {
  let dialect: CourierALPN
  let identity: DeviceIdentity
  let presentedToken: DeviceToken?
  var framer = CourierFramer()
  /// What came behind the connect message.
  var unread: [UInt8] = []
  /// The connect message, where another node decides about the device; else empty.
  var connectFrame: [UInt8] = []

  init(_ dialect: CourierALPN, _ identity: DeviceIdentity, presentedToken: DeviceToken?) {
    self.dialect = dialect
    self.identity = identity
    self.presentedToken = presentedToken
  }

  var device: DeviceID? { identity.device }
}
