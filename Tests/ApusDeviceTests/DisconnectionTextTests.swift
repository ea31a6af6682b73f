import ApusDevice
import ApusTLS
import ApusWire
import Testing

/// What a device's log says when the service does not accept its certificate.
@Suite("Reasons of a lost connection in words")
struct DisconnectionTextTests {
  /// RFC 8446, section 6.2: certificate_revoked, certificate_expired, unknown_ca.
  @Test(
    "An alert about the device's certificate says what is wrong and what to do",
    arguments: [(UInt8(44), "is revoked"), (45, "has expired"), (48, "does not trust")])
  func alert(code: UInt8, text: String) {
    let words = DeviceDisconnection.tls(.alertReceived(code)).description
    #expect(words.contains(text))
    #expect(words.contains("needs a new certificate"))
  }

  @Test("A refusal tells what the service explained, or that the device's clock is wrong")
  func refused() {
    let explained = CourierRefusal(
      status: .refused, serverMilliseconds: 0, badNonceServerMilliseconds: nil,
      explanation: "the device is retired")
    #expect(
      DeviceDisconnection.refused(explained).description
        == "the service refused the device (status 2): the device is retired")
    let late = CourierRefusal(
      status: .refused, serverMilliseconds: 0, badNonceServerMilliseconds: 1)
    #expect(DeviceDisconnection.refused(late).description.contains("clock of this device is wrong"))
  }

  @Test("An alert about anything else stays what it is")
  func otherAlert() {
    #expect(
      DeviceDisconnection.tls(.alertReceived(40)).description == "the peer sent TLS alert 40")
  }

  @Test(
    "A certificate of the service that is not valid at this time points to the device's clock",
    arguments: ["certificate is not yet valid", "certificate has expired"])
  func clock(reason: String) {
    let words = DeviceDisconnection.tls(.certificateRejected(reason)).description
    #expect(words.contains(reason))
    #expect(words.contains("clock of this device"))
  }

  @Test("A certificate that is rejected for another reason does not")
  func otherRejection() {
    let words = DeviceDisconnection.tls(.certificateRejected("self-signed certificate")).description
    #expect(!words.contains("clock"))
  }
}
