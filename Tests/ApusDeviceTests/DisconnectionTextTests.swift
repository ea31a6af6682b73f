@testable import ApusDevice
import ApusTLS
import ApusWire
import Testing

/// The log message of a device whose certificate the service does not accept.
@Suite("Readable reasons of a lost connection")
struct DisconnectionTextTests {
  /// RFC 8446, section 6.2: certificate_revoked, certificate_expired, unknown_ca.
  @Test(
    "An alert about the device's certificate gives the problem and the remedy",
    arguments: [(UInt8(44), "is revoked"), (45, "has expired"), (48, "does not trust")])
  func alert(code: UInt8, text: String) {
    let words = DeviceDisconnection.tls(.alertReceived(code)).description
    #expect(words.contains(text))
    #expect(words.contains("needs a new certificate"))
  }

  @Test("A refusal contains the service's explanation, or points to the device's clock")
  func refused() {
    let explained = CourierRefusal(
      status: .refused, serverMilliseconds: 0, badNonceServerMilliseconds: nil,
      explanation: "the device is retired")
    #expect(
      DeviceDisconnection.refused(explained).description
        == "the service refused the device (status 2): the device is retired")
    let late = CourierRefusal(
      status: .refused, serverMilliseconds: 0, badNonceServerMilliseconds: 1)
    #expect(DeviceDisconnection.refused(late).description.contains("clock of this device differs"))
  }

  @Test("Only a refusal that is explained, and an alert after the handshake, are final")
  func finalReasons() {
    func refusal(_ explanation: String, badNonce: UInt64? = nil) -> DeviceDisconnection {
      .refused(
        CourierRefusal(
          status: .refused, serverMilliseconds: 0, badNonceServerMilliseconds: badNonce,
          explanation: explanation))
    }
    #expect(refusal("retired").isFinal(afterHandshake: true))
    #expect(!refusal("").isFinal(afterHandshake: true))
    #expect(!refusal("", badNonce: 1).isFinal(afterHandshake: true))
    for (code, isFinal) in [(UInt8(44), true), (45, false), (48, true), (40, false)] {
      let alert = DeviceDisconnection.tls(.alertReceived(code))
      #expect(alert.isFinal(afterHandshake: true) == isFinal)
      #expect(!alert.isFinal(afterHandshake: false))
    }
    for other: DeviceDisconnection in [
      .stopped, .timedOut, .otherProtocol, .closed, .goodbye(reason: "the device is retired"),
      .tls(.certificateRejected("expired")), .transport(104),
    ] {
      #expect(!other.isFinal(afterHandshake: true))
    }
  }

  @Test("Other alerts are reported unchanged")
  func otherAlert() {
    #expect(
      DeviceDisconnection.tls(.alertReceived(40)).description == "the peer sent TLS alert 40")
  }

  @Test(
    "A service certificate outside its validity points to the device's clock",
    arguments: ["certificate is not yet valid", "certificate has expired"])
  func clock(reason: String) {
    let words = DeviceDisconnection.tls(.certificateRejected(reason)).description
    #expect(words.contains(reason))
    #expect(words.contains("clock of this device"))
  }

  @Test("A certificate rejected for another reason does not point to the clock")
  func otherRejection() {
    let words = DeviceDisconnection.tls(.certificateRejected("self-signed certificate")).description
    #expect(!words.contains("clock"))
  }
}
