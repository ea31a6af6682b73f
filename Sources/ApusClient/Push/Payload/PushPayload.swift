public import ApusModel
import ApusWire

/// The payload of one kind of push, with the header values of that kind.
///
/// Each type offers only the keys of its kind, so a payload cannot contradict its push type. Use
/// ``PushRequest/init(token:app:_:)`` with any of them.
public protocol PushPayload: Sendable {
  /// The push type, which determines the suffix of the topic.
  var pushType: PushType { get }
  /// The only sensible priority for this kind; nil if the service's default will do.
  var priority: Priority? { get }
  /// Unix seconds as in ``PushRequest/expirationSeconds``; nil if this kind does not prescribe one.
  var expirationSeconds: Int64? { get }
  /// The JSON for ``PushRequest/payload``, without white space. Properties that are nil are left out.
  var bytes: [UInt8] { get }
}

extension PushPayload {
  public var priority: Priority? { nil }
  public var expirationSeconds: Int64? { nil }
}

extension PushRequest {
  /// A push with the push type, topic, priority and expiration of its payload.
  ///
  /// - Parameters:
  ///   - token: The device token in hexadecimal digits.
  ///   - bundleID: The app's bundle id, without the suffix that some push types require.
  ///   - payload: The payload.
  public init(token: String, app bundleID: String, _ payload: some PushPayload) {
    let type = payload.pushType
    self.init(
      token: token, topic: bundleID + type.topicSuffix.text.description, pushType: type,
      payload: payload.bytes)
    priority = payload.priority
    expirationSeconds = payload.expirationSeconds
  }
}

/// Writes `{"aps":{…},…}` key by key.
struct PayloadWriter {
  var json = JSONWriter()

  /// Begins both objects, the payload and `aps`.
  init() {
    json.beginObject()
    json.key("aps")
    json.beginObject()
  }

  mutating func put(_ name: String, _ text: String?) {
    guard let text else { return }
    json.key(name)
    json.string(text)
  }

  mutating func put(_ name: String, _ texts: [String]?) {
    guard let texts else { return }
    json.key(name)
    json.beginArray()
    for text in texts { json.string(text) }
    json.endArray()
  }

  mutating func put(_ name: String, _ number: Int64?) {
    guard let number else { return }
    json.key(name)
    json.integer(number)
  }

  mutating func put(_ name: String, _ number: Double?) {
    guard let number else { return }
    json.key(name)
    json.number(number)
  }

  /// `"name":1`, or nothing.
  mutating func put(_ name: String, flag: Bool) { if flag { put(name, 1 as Int64) } }

  mutating func put(_ name: String, _ value: EncodedValue?) {
    guard let value else { return }
    json.key(name)
    value.write(to: &json)
  }

  mutating func put(_ sound: PushSound?) {
    switch sound {
    case nil: break
    case .named(let name)?: put("sound", name)
    case .critical(let name, let volume)?:
      json.key("sound")
      json.beginObject()
      put("critical", 1 as Int64)
      put("name", name)
      put("volume", volume)
      json.endObject()
    }
  }

  /// Ends `aps`, and writes the keys next to it.
  mutating func end(_ custom: CustomKeys) -> [UInt8] {
    json.endObject()
    EncodedValue.write(custom.members, to: &json)
    json.endObject()
    return json.bytes
  }
}
