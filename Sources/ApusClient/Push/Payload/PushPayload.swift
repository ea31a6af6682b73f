public import ApusModel
import ApusWire

/// The payload of one kind of push, and what goes with that kind in the header.
///
/// Each type has the keys that the kind knows and no others, so that a payload cannot contradict its push type.
/// ``PushRequest/init(token:app:_:)`` takes all of them.
public protocol PushPayload: Sendable {
  /// The kind, which decides about the topic's suffix.
  var pushType: PushType { get }
  /// The only priority that makes sense for this kind; nil where the service's default is as good as any.
  var priority: Priority? { get }
  /// Unix seconds as in ``PushRequest/expirationSeconds``, where the kind has an opinion.
  var expirationSeconds: Int64? { get }
  /// The JSON for ``PushRequest/payload``, without white space. What is nil is left out.
  var bytes: [UInt8] { get }
}

extension PushPayload {
  public var priority: Priority? { nil }
  public var expirationSeconds: Int64? { nil }
}

extension PushRequest {
  /// A push of the payload's own kind: push type, topic, priority and expiration follow from it.
  ///
  /// - Parameters:
  ///   - token: The device token in hexadecimal digits.
  ///   - bundleID: The app's bundle id, without the suffix that some push types want.
  ///   - payload: What is sent.
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

  /// Begins both objects.
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

  /// Ends `aps`, and writes what stands beside it.
  mutating func end(_ custom: CustomKeys) -> [UInt8] {
    json.endObject()
    EncodedValue.write(custom.members, to: &json)
    json.endObject()
    return json.bytes
  }
}
