import ApusHTTP2
import ApusModel
import ApusWire

/// A request about the channels of an app. Source: Sending channel management requests to APNs.
enum ChannelRequest {
  case create(ChannelStorage)
  case read(BroadcastChannel.ID)
  case delete(BroadcastChannel.ID)
  case list

  /// Bytes of a list: 10,000 channels, the most of an app, with the longest ids and their commas.
  private static let listBytes = 1 << 20

  /// Nil for `POST`.
  var method: StaticString? {
    switch self {
    case .create: nil
    case .read, .list: "GET"
    case .delete: "DELETE"
    }
  }

  /// What follows the bundle id in the path.
  var pathEnd: StaticString {
    switch self {
    case .create, .read, .delete: "/channels"
    case .list: "/all-channels"
    }
  }

  /// The value of `apns-channel-id`.
  var channel: BroadcastChannel.ID? {
    switch self {
    case .create, .list: nil
    case .read(let channel), .delete(let channel): channel
    }
  }

  var body: [UInt8] {
    guard case .create(let storage) = self else { return [] }
    var json = JSONWriter()
    json.beginObject()
    json.key("message-storage-policy")
    json.integer(Int64(storage.rawValue))
    json.key("push-type")
    json.string("LiveActivity")
    json.endObject()
    return json.bytes
  }

  /// Bytes of the answer's body that are kept.
  var answerLimit: Int { if case .list = self { Self.listBytes } else { Limits.answerBytes } }

  /// Whether it changes anything, so that repeating it is not the same as sending it once.
  var changesChannels: Bool {
    switch self {
    case .create, .delete: true
    case .read, .list: false
    }
  }

  /// What an unknown outcome means, as the rest of a sentence.
  var doubt: String {
    switch self {
    case .create:
      "; the channel may exist, and sending the request again may create another: list the app's "
        + "channels first"
    case .delete: "; the channel may be deleted: delete it again"
    case .read, .list: ""
    }
  }
}

/// The parts of a successful answer that requests about channels need.
struct ChannelAnswer: Sendable {
  /// The value of `apns-channel-id`.
  var channelText: String?
  var body: [UInt8]

  init(_ response: HTTP2Response) {
    channelText = response.text(.apnsChannelID)
    body = response.body.span.copied()
  }

  var channelID: BroadcastChannel.ID? { channelText.flatMap(BroadcastChannel.ID.init) }

  /// `{"message-storage-policy":1,"push-type":"LiveActivity"}`
  var storage: ChannelStorage? {
    json?["message-storage-policy"]?.integer.flatMap(UInt8.init(exactly:))
      .flatMap(ChannelStorage.init)
  }

  /// `{"channels":["…",…]}`. Nil if one of them is no id, because a list that leaves out a channel is wrong.
  var channelIDs: [BroadcastChannel.ID]? {
    guard let texts = json?["channels"]?.array else { return nil }
    let ids = texts.compactMap { $0.string.flatMap(BroadcastChannel.ID.init) }
    return ids.count == texts.count ? ids : nil
  }

  private var json: JSONValue? { try? JSONValue(parsing: body.span) }
}
