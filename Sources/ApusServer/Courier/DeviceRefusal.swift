import ApusCore
import ApusDirectory
import ApusModel
import ApusTrust
import ApusWire

/// Why a device was not believed.
enum DeviceRefusal: Error, CustomStringConvertible {
  case inBandNotAllowed
  case noCertificate
  case certificate(DeviceCertificateFault)
  case unreadable(TrustFault)
  case signature(NonceProofFault)
  case clock(offMilliseconds: Int64)
  case replayed
  case differentKeys
  case retired(DeviceID)
  case revoked(DeviceID)
  case authorityRemoved(DeviceID)
  case superseded(DeviceID)

  var description: String {
    switch self {
    case .inBandNotAllowed: "certificates in the connect message are not allowed"
    case .noCertificate: "no certificate"
    case .certificate(let fault): "certificate: \(fault)"
    case .unreadable(let fault): "certificate: \(fault)"
    case .signature(let fault): "signature: \(fault)"
    case .clock(let off): "the nonce's time is off by \(off) ms"
    case .replayed: "the nonce was used before"
    case .differentKeys: "the certificates of the handshake and of the connect message differ"
    case .retired(let device): "the device \(device.text) is retired"
    case .revoked(let device): "the certificate of the device \(device.text) is revoked"
    case .authorityRemoved(let device):
      "the authority of the certificate of the device \(device.text) is no longer trusted"
    case .superseded(let device): "the device \(device.text) has a newer key"
    }
  }

  /// The kind of it, one of a closed list.
  var kind: String {
    switch self {
    case .inBandNotAllowed: "in-band not allowed"
    case .noCertificate: "no certificate"
    case .certificate(let fault): "certificate \(fault)"
    case .unreadable: "certificate unreadable"
    case .signature: "signature"
    case .clock: "clock"
    case .replayed: "replayed"
    case .differentKeys: "different keys"
    case .retired: "retired"
    case .revoked: "revoked"
    case .authorityRemoved: "authority removed"
    case .superseded: "superseded"
    }
  }

  /// For the device: what to do, where it can do something. It has proved who it is in these cases.
  var advice: String? {
    switch self {
    case .retired(let device):
      "the device \(device.text) is retired and cannot connect again: enrol it as a new device"
    case .revoked: CertificateStanding.Fault.revoked.text
    case .authorityRemoved: CertificateStanding.Fault.authorityRemoved.text
    case .superseded(let device):
      "the device \(device.text) has a newer key: this is an old copy of its identity"
    default: nil
    }
  }

  /// Whom it is about; nil where that was not proved.
  var device: DeviceID? {
    switch self {
    case .retired(let device), .revoked(let device), .authorityRemoved(let device),
      .superseded(let device):
      device
    default: nil
    }
  }

  /// Whether the answer is to carry the service's time.
  var isAboutTime: Bool {
    if case .clock = self { true } else { false }
  }
}
