import ApusDirectory
import ApusModel
import ApusServer
import ApusTrust
import ApusWire
import Testing

@testable import ApusDevice

/// What `print` shows, written by hand.
@Suite("What a device reports can be printed")
struct DescriptionTests {
  @Test("A notification is printed with its topic, id and payload")
  func notification() {
    let all = ReceivedNotification(
      CourierNotification(
        token: token(otherHex), topic: topic(appHex), messageID: 1, expirySeconds: 1_700_000_000,
        storage: .fromStorage, priority: .powerSaving, id: NotificationID(high: 1, low: 2),
        pushType: .alert),
      topic: "com.example.app", payload: Array(#"{"aps":{}}"#.utf8), collapseID: "score",
      channel: "w8PDww==")
    #expect(
      "\(all)"
        == "com.example.app, apns-id 00000000-0000-0001-0000-000000000002, alert, priority 5, "
        + #"expiration 1700000000, collapse id "score", channel w8PDww==, was stored, to ffeeddcc…: {"aps":{}}"#
    )
    let least = ReceivedNotification(
      CourierNotification(token: token(otherHex), topic: topic(appHex), messageID: 1),
      topic: "com.example.app", payload: Array("{}".utf8), collapseID: nil)
    #expect("\(least)" == "com.example.app, to ffeeddcc…: {}")
  }

  @Test(
    "Events are printed as sentences",
    arguments: [
      (
        .connected(baseToken: token(baseHex), isNewToken: true, serverMilliseconds: 1),
        "connected, base token 10111213… (new)"
      ),
      (
        .connected(baseToken: token(baseHex), isNewToken: false, serverMilliseconds: 1),
        "connected, base token 10111213…"
      ),
      (
        .disconnected(reason: "the service closed", retryMilliseconds: 1500),
        "disconnected: the service closed; connects again in 1500 ms"
      ),
      (.disconnected(reason: "stopped", retryMilliseconds: nil), "disconnected: stopped"),
      (.nothingStored, "nothing is stored for the device"),
      (
        .renewed(DeviceIdentity(certificatePEM: "", keyPEM: "SECRET")),
        "renewed: an unreadable device certificate"
      ),
      (.notRenewed(reason: "no room"), "not renewed: no room"),
    ] as [(DeviceEvent, String)])
  func event(event: DeviceEvent, text: String) {
    #expect("\(event)" == text)
  }

  @Test("Errors and their codes are printed in words")
  func error() {
    let error = DeviceError(.tokenRefused, "the service has no topic x")
    #expect("\(error)" == "the service has no topic x")
    #expect("\(error.code)" == "token refused")
    #expect("\(DeviceError.Code.stopped)" == "stopped")
  }

  @Test("An identity and a configuration are printed with the device's id, and without its key")
  func identity() throws {
    let live = try LiveService()
    defer { live.service.stop() }
    let issued = try live.issueDevice()
    let identity = DeviceIdentity(
      certificatePEM: issued.certificate.pem, keyPEM: issued.key.pkcs8PEM)
    let id = try #require(identity.deviceID)
    let text =
      "device \(id), certificate valid until \(issued.certificate.notAfter) (Unix seconds)"
    #expect("\(identity)" == text)
    let configuration = DeviceConfiguration(
      host: "push.example.com", authorityPEM: "", certificatePEM: identity.certificatePEM,
      keyPEM: identity.keyPEM, topics: DeviceTopics(enabled: ["com.example.app"]))
    #expect("\(configuration)" == "push.example.com, port 5223, \(text), topics: 1")
  }
}
