package import ApusModel
import ApusWire

/// The JSON of the channel management API: `{"message-storage-policy":1,"push-type":"LiveActivity"}`.
///
/// Source: "Sending channel management requests to APNs". Both members are required, and the only push type is that of
/// Live Activities.
package enum ChannelBody {
  static let policyKey = "message-storage-policy"
  static let pushTypeKey = "push-type"
  private static let pushType = "LiveActivity"

  /// Reads the body that creates a channel.
  package static func storage(
    decoding body: Span<UInt8>, byteCount: Int
  ) throws(Refusal) -> ChannelStorage {
    guard byteCount > 0 else { throw Refusal(.payloadEmpty) }
    guard byteCount <= Limits.channelBodyBytes else {
      throw Refusal(.channel(.bodyTooLarge(byteCount: byteCount)))
    }
    let members = try members(of: body)
    guard members.allSatisfy({ $0.key == policyKey || $0.key == pushTypeKey }) else {
      throw Refusal(.channel(.memberUnknown))
    }
    guard Set(members.map(\.key)).count == members.count else {
      throw Refusal(.channel(.memberTwice))
    }
    let object = JSONObject(members)
    guard let type = object[pushTypeKey] else { throw Refusal(.channel(.pushTypeMissing)) }
    guard let name = type.string, PushType(headerValue: Array(name.utf8).span) == .liveactivity
    else { throw Refusal(.channel(.pushTypeUnknown)) }
    guard let policy = object[policyKey] else { throw Refusal(.channel(.policyMissing)) }
    guard let number = policy.integer,
      let storage = UInt8(exactly: number).flatMap(ChannelStorage.init)
    else { throw Refusal(.channel(.policyUnknown)) }
    return storage
  }

  private static func members(of body: Span<UInt8>) throws(Refusal) -> [JSONObject.Member] {
    let value: JSONValue
    do throws(JSONFault) {
      value = try JSONValue(parsing: body)
    } catch {
      throw Refusal(.payloadNotJSON(error))
    }
    guard let object = value.object else { throw Refusal(.payloadNotJSON(.notObject)) }
    return object.members
  }

  /// The configuration of a channel.
  package static func encode(_ storage: ChannelStorage) -> [UInt8] {
    Array("{\"\(policyKey)\":\(storage.rawValue),\"\(pushTypeKey)\":\"\(pushType)\"}".utf8)
  }

  /// `{"channels":["…",…]}`, with the ids in base64.
  package static func encode(_ channels: [ChannelID]) -> [UInt8] {
    var bytes = Array("{\"channels\":[".utf8)
    bytes.reserveCapacity(bytes.count + channels.count * 27 + 2)
    for (index, channel) in channels.enumerated() {
      bytes += index == 0 ? [0x22] : [0x2c, 0x22]
      bytes += channel.base64
      bytes.append(0x22)
    }
    return bytes + [0x5d, 0x7d]
  }
}

extension ChannelID {
  /// The text on the wire, 24 characters.
  package var base64: [UInt8] {
    let bytes = bytes
    return Base64.encode(bytes.span)
  }

  /// The same for people.
  package var text: String { String(decoding: base64, as: UTF8.self) }

  /// Nil unless it is base64 of 16 bytes.
  package init?(text: String) {
    let text = Array(text.utf8)
    guard let bytes = Base64.decode(text.span) else { return nil }
    self.init(bytes: bytes.span)
  }
}
