import ApusCore
import ApusModel
import Testing

struct NotificationFillTests {
  static let month: Int64 = 30 * 24 * 3600

  @Test(
    "The expiration field decides how long a notification is kept",
    arguments: [
      (nil, World.now + month),
      ("0", 0),
      ("1", 0),
      ("\(World.now - 1)", 0),
      ("\(World.now)", 0),
      ("\(World.now + 1)", World.now + 1),
      ("\(World.now + month)", World.now + month),
      ("\(World.now + month + 1)", World.now + month),
      ("9223372036854775807", World.now + month),
    ] as [(String?, Int64)])
  func expiration(_ value: String?, _ kept: Int64) throws {
    var request = Request()
    if let value { request.set(.apnsExpiration, value) }
    var driver = try Driver()
    #expect(try driver.send(request).expirationSeconds == kept)
  }

  static let alert = #"{"aps":{"alert":"a"}}"#
  static let wake = #"{"aps":{"content-available":1}}"#
  static let both = #"{"aps":{"content-available":1,"alert":"a"}}"#

  @Test(
    "The priority for delivery follows from the field, the push type and the payload",
    arguments: [
      ("alert", nil, alert, .immediate),
      ("alert", "5", alert, .powerSaving),
      ("alert", "1", alert, .whenActive),
      ("alert", nil, wake, .immediate),
      ("background", nil, wake, .powerSaving),
      ("background", "5", wake, .powerSaving),
      ("background", "1", wake, .whenActive),
      (nil, nil, wake, .powerSaving),
      (nil, "10", wake, .powerSaving),
      (nil, "5", wake, .powerSaving),
      (nil, "1", wake, .whenActive),
      (nil, "10", both, .immediate),
      (nil, nil, alert, .immediate),
      (nil, "5", alert, .powerSaving),
    ] as [(String?, String?, String, Priority)])
  func priority(_ type: String?, _ value: String?, _ body: String, _ expected: Priority) throws {
    var request = Request()
    request.remove(.apnsPushType)
    if let type { request.set(.apnsPushType, type) }
    if let value { request.set(.apnsPriority, value) }
    request.body = Array(body.utf8)
    var driver = try Driver()
    #expect(try driver.send(request).priority == expected)
  }

  @Test("A reused notification keeps nothing of its predecessor except an id that no field set")
  func reuse() throws {
    let notification = Notification()
    notification.isFromStorage = true
    notification.mayBeRepeated = true
    notification.collapseID.set(Array("old".utf8).span)
    notification.payload.set([UInt8](repeating: 1, count: 900).span)
    notification.id = NotificationID(high: 1, low: 2)
    var request = Request()
    request.remove(.apnsPushType)
    notification.pushType = .voip
    let fields = request.requestFields()
    var driver = try Driver()
    guard case .trusted = driver.authenticate(fields, request.provider) else {
      Issue.record("not trusted")
      return
    }
    let head = try Admission.examine(
      fields, connection: driver.connection, directory: driver.directory,
      bodyByteCount: request.body.count, body: request.body.span)
    Admission.fill(
      notification, from: head, claims: World.claims(), interface: .http2,
      collapseID: fields.value(.apnsCollapseID), payload: request.body.span, nowMilliseconds: 5_000)
    #expect(!notification.isFromStorage && !notification.mayBeRepeated)
    #expect(notification.collapseID.isEmpty)
    #expect(notification.payload.span.text == #"{"aps":{"alert":"hello"}}"#)
    #expect(notification.pushType == nil)
    #expect(notification.id == NotificationID(high: 1, low: 2))
    #expect(notification.expirationSeconds == 5 + Self.month)
  }

  @Test("A body that was not read to its end is still too large")
  func truncatedBody() throws {
    let request = Request()
    let fields = request.requestFields()
    let driver = try Driver()
    let refusal = #expect(throws: Refusal.self) {
      try Admission.examine(
        fields, connection: driver.connection, directory: driver.directory,
        bodyByteCount: 1_000_000, body: request.body.span)
    }
    #expect(refusal?.explanation == .payloadTooLarge(byteCount: 1_000_000, limit: 4096))
  }
}
