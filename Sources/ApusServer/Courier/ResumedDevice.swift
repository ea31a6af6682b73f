import ApusCore
import ApusDirectory
import ApusModel
import ApusWire

/// A device whose connection another node had, as that node has described it: see ``ClientState``.
final class ResumedDevice: HandedOverState {
  let identity: DeviceIdentity
  /// The one that the device knows. The service may have a newer sealing key by now.
  let baseToken: DeviceToken
  /// Those of the device's last filter.
  let filterFields: [UInt8]
  /// What else the device has said of itself; nil if nothing.
  let session: DeviceSessionState?
  /// All of it, for a further node.
  let wholeState: ClientState

  var device: DeviceID? { identity.device }
  /// What no node has dealt with; empty if the edge sends it behind this.
  let unread: [UInt8]

  /// Nil if what the edge has sent is malformed.
  init?(_ state: ClientState, unread: [UInt8] = []) {
    guard let known = state.bytes(of: .identity), let fields = state.bytes(of: .filter) else {
      return nil
    }
    var reader = ByteReader(known.span)
    guard let token = reader.take(DeviceToken.byteCount), let baseToken = DeviceToken(bytes: token),
      let identity = DeviceIdentity(&reader)
    else { return nil }
    (self.identity, self.baseToken, filterFields) = (identity, baseToken, fields)
    wholeState = state
    session = state.bytes(of: .session).flatMap { DeviceSessionState($0.span) }
    self.unread = unread
  }
}

/// What a device says of itself while it is connected.
///
/// Layout: power state (1), seconds for which it may be silent (4, big-endian).
struct DeviceSessionState {
  var power: PowerState
  var idleSeconds: UInt64

  init(power: PowerState, idleSeconds: UInt64) {
    (self.power, self.idleSeconds) = (power, idleSeconds)
  }

  init?(_ bytes: Span<UInt8>) {
    var reader = ByteReader(bytes)
    guard let power = reader.u8().flatMap(PowerState.init(rawValue:)), let seconds = reader.u32()
    else { return nil }
    self.init(power: power, idleSeconds: UInt64(seconds))
  }

  var bytes: [UInt8] {
    var bytes = [power.rawValue]
    bytes.append(bigEndian: UInt32(clamping: idleSeconds))
    return bytes
  }
}

extension DeviceIdentity {
  /// Layout, numbers big-endian: device (8), fingerprint of its key (1 for the length, then the bytes), beginning and
  /// end of the certificate (8 each), its fingerprint and its place (32 each), authorities (1 for their number, then 8
  /// each), and of the certificate of the handshake, if there was one: beginning and end (8 each), and the common name
  /// (the rest; without it the byte 0xff, which UTF-8 does not have).
  func encode(to output: inout [UInt8]) {
    output.append(bigEndian: device.rawValue)
    output.append(UInt8(keyFingerprint.count))
    output += keyFingerprint
    output.append(bigEndian: UInt64(bitPattern: issuedSeconds))
    output.append(bigEndian: UInt64(bitPattern: notAfter))
    output += certificate.fingerprint.bytes + certificate.place.bytes
    output.append(UInt8(clamping: issuers.count))
    for issuer in issuers.prefix(Int(UInt8.max)) { output.append(bigEndian: issuer) }
    guard let presented else { return }
    output.append(bigEndian: UInt64(bitPattern: presented.notBefore))
    output.append(bigEndian: UInt64(bitPattern: presented.notAfter))
    output += presented.commonName.map { Array($0.utf8) } ?? [0xff]
  }

  /// Reads what `encode` has written; nil if it is malformed.
  init?(_ reader: inout ByteReader) {
    func seconds() -> Int64? { reader.u64().map(Int64.init(bitPattern:)) }
    func fingerprint() -> CertificateFingerprint? {
      guard let bytes = reader.take(CertificateFingerprint.byteCount) else { return nil }
      return CertificateFingerprint(bytes)
    }
    guard let device = reader.u64(), let keyByteCount = reader.u8(),
      let key = reader.take(Int(keyByteCount))?.copied(), let issued = seconds(),
      let notAfter = seconds(), let print = fingerprint(), let place = fingerprint(),
      let issuerCount = reader.u8()
    else { return nil }
    var issuers: [UInt64] = []
    for _ in 0..<issuerCount {
      guard let issuer = reader.u64() else { return nil }
      issuers.append(issuer)
    }
    self.device = DeviceID(device)
    keyFingerprint = key
    issuedSeconds = issued
    self.notAfter = notAfter
    certificate = CertificateNames(fingerprint: print, place: place)
    self.issuers = issuers
    guard reader.remaining > 0 else { return }
    guard let from = seconds(), let until = seconds(), let name = reader.take(reader.remaining)
    else { return nil }
    presented = PresentedCertificate(
      notBefore: from, notAfter: until,
      commonName: name.count == 1 && name[0] == 0xff
        ? nil : String(decoding: name.copied(), as: UTF8.self))
  }
}
