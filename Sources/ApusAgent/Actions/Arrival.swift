import ApusDevice
import ApusModel
import ApusWire

/// A notification as it arrived.
struct Arrival: Sendable {
  /// The notification's id, by which it is handled once in its topic. A service that sends none is given one of the
  /// time and its own number.
  let id: String
  /// Of the record of notifications.
  var key: String { DeliveryRecord.key(id: id, topic: topic) }
  /// The service's number for it until it is acknowledged.
  let messageID: UInt32
  let topic: String
  let fields: CourierNotification
  let payload: [UInt8]
  /// Nil for none.
  let collapseID: String?

  init(
    _ fields: CourierNotification, topic: String, payload: [UInt8], collapseID: String?
  ) {
    id = fields.id?.text ?? "\(fields.sentNanoseconds ?? 0)-\(fields.messageID)"
    messageID = fields.messageID
    self.topic = topic
    self.fields = fields
    self.payload = payload
    self.collapseID = collapseID
  }

  private var sentMilliseconds: Int64? {
    fields.sentNanoseconds.map { Int64(clamping: $0 / 1_000_000) }
  }

  private var payloadValue: JSONValue {
    (try? JSONValue(parsing: payload.span)) ?? .string(String(decoding: payload, as: UTF8.self))
  }

  /// Its members, as programs and files get them.
  var json: JSONValue {
    .members([
      "id": .string(id), "topic": .string(topic), "token": .string(fields.token.hex),
      "push_type": (fields.pushType?.name.description).map(JSONValue.string),
      "priority": fields.priority.map { .integer(Int64($0.rawValue)) },
      "expiration": fields.expirySeconds.map { .integer(Int64($0)) },
      "collapse_id": collapseID.map(JSONValue.string),
      "sent_milliseconds": sentMilliseconds.map(JSONValue.integer),
      "from_storage": .bool(fields.storage.contains(.fromStorage)),
      "payload": payloadValue,
    ])
  }

  /// What a command finds in its environment. Only values come from the provider, never names.
  var variables: [(name: String, value: String)] {
    let shown = Presentation(payload: payload)
    let values: KeyValuePairs<String, String?> = [
      "ID": id, "TOPIC": topic, "TOKEN": fields.token.hex,
      "TYPE": fields.pushType?.name.description,
      "PRIORITY": fields.priority.map { "\($0.rawValue)" },
      "EXPIRATION": fields.expirySeconds.map(String.init), "COLLAPSE_ID": collapseID,
      "SENT_MILLISECONDS": sentMilliseconds.map(String.init),
      "FROM_STORAGE": fields.storage.contains(.fromStorage) ? "1" : "0", "TITLE": shown?.title,
      "SUBTITLE": shown?.subtitle, "BODY": shown?.body, "CATEGORY": shown?.category,
      "THREAD": shown?.thread, "BADGE": shown?.badge.map(String.init),
    ]
    return values.compactMap { name, value in
      // A zero byte would end the value for the program that reads it.
      value.map { ("APUS_NOTIFICATION_\(name)", String($0.filter { $0 != "\0" })) }
    }
  }
}

extension JSONValue {
  /// One line with its end.
  var line: [UInt8] { bytes + [0x0a] }
}
