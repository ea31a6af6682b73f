package import ApusModel
import ApusWire

/// A push to many devices, as it was accepted.
package struct PushJob: Sendable, Hashable {
  /// The low 32 bits are 0: those of a notification's id are the device's place.
  package var id: NotificationID
  package var createdMilliseconds: Int64
  /// Who asked for it.
  package var actor: String
  /// The devices that it is for, in the words of the request.
  package var selector: String
  package var push: GroupPush
  package var idempotency: Idempotency?
  package var deviceCount: Int

  /// What tells a repeated request from a new one.
  package struct Idempotency: Sendable, Hashable {
    /// Of the caller and the header field: SHA-256, 64 digits.
    package var key: String
    /// Of the content: SHA-256, 64 digits.
    package var request: String

    package init(key: String, request: String) {
      self.key = key
      self.request = request
    }
  }

  package init(
    id: NotificationID, createdMilliseconds: Int64, actor: String, selector: String,
    push: GroupPush, idempotency: Idempotency?, deviceCount: Int
  ) {
    self.id = NotificationID(high: id.high, low: id.low & ~Self.placeMask)
    self.createdMilliseconds = createdMilliseconds
    self.actor = actor
    self.selector = selector
    self.push = push
    self.idempotency = idempotency
    self.deviceCount = deviceCount
  }

  private static let placeMask: UInt64 = 0xffff_ffff

  /// The `apns-id` of the notification for the device at a place.
  package static func notificationID(_ job: NotificationID, place: UInt32) -> NotificationID {
    NotificationID(high: job.high, low: job.low | UInt64(place))
  }

  /// The place of the device that a notification is for; nil if it belongs to something else.
  package func place(of notification: NotificationID) -> Int? {
    guard notification.high == id.high, notification.low & ~Self.placeMask == id.low else {
      return nil
    }
    let place = Int(notification.low & Self.placeMask)
    return place < deviceCount ? place : nil
  }

  // MARK: On disk

  var json: JSONValue {
    .members([
      "id": .string(id.text), "created_milliseconds": .integer(createdMilliseconds),
      "actor": .string(actor), "selector": .string(selector),
      "devices": .integer(Int64(deviceCount)),
      "idempotency_key_sha256": idempotency.map { .string($0.key) },
      "request_sha256": idempotency.map { .string($0.request) },
      "environment": .string(push.environment.name), "topic": push.topic.map(JSONValue.string),
      "push_type": push.pushType.map(JSONValue.string),
      "priority": push.priority.map(JSONValue.string),
      "expiration": push.expiration.map(JSONValue.string),
      "collapse_id": push.collapseID.map(JSONValue.string),
      "payload": .string(String(decoding: push.payload, as: UTF8.self)),
    ])
  }

  init?(json: JSONValue) {
    guard let text = json["id"]?.string, let id = NotificationID(string: text),
      let created = json["created_milliseconds"]?.integer, let actor = json["actor"]?.string,
      let selector = json["selector"]?.string, let devices = json["devices"]?.integer,
      let environment = json["environment"]?.string.flatMap({ Environment(name: $0) }),
      let payload = json["payload"]?.string
    else { return nil }
    var push = GroupPush(environment: environment, payload: Array(payload.utf8))
    push.topic = json["topic"]?.string
    push.pushType = json["push_type"]?.string
    push.priority = json["priority"]?.string
    push.expiration = json["expiration"]?.string
    push.collapseID = json["collapse_id"]?.string
    var idempotency: Idempotency?
    if let key = json["idempotency_key_sha256"]?.string,
      let request = json["request_sha256"]?.string
    {
      idempotency = Idempotency(key: key, request: request)
    }
    self.init(
      id: id, createdMilliseconds: created, actor: actor, selector: selector, push: push,
      idempotency: idempotency, deviceCount: Int(devices))
  }
}
