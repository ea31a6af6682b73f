import ApusModel
import ApusWire

/// The channels that a virtual device subscribes to over one connection. Ids are in base64, as providers have them.
struct DeviceChannels {
  /// By topic.
  private var wanted: [String: Set<String>] = [:]
  private var confirmed: Set<[UInt8]> = []

  mutating func want(_ channels: [String: Set<String>]) { wanted = channels }

  /// The request that makes these the wanted ones; nil if they are.
  func change(to channels: [String: Set<String>]) -> CourierSubscriptions? {
    guard channels != wanted else { return nil }
    let topics = channels.sorted { $0.key < $1.key }.map { topic, ids in
      CourierChannelTopic(
        topic: Array(topic.utf8),
        subscribed: ids.sorted().map { CourierChannelMark(id: Self.bytes($0)) })
    }
    return CourierSubscriptions(topics: topics, replaces: true)
  }

  /// The service has carried out a request: these are the subscriptions now.
  mutating func confirm(_ subscriptions: CourierSubscriptions) {
    confirmed = Set(subscriptions.topics.flatMap(\.subscribed).map(\.id))
  }

  /// Elements of an array. A channel that the service does not have stays unsubscribed.
  func write(to writer: inout JSONWriter, _ environment: Environment) {
    for (topic, ids) in wanted.sorted(by: { $0.key < $1.key }) {
      for id in ids.sorted() {
        writer.beginObject()
        writer.text("channel", id)
        writer.text("topic", topic)
        writer.text("environment", environment.name)
        writer.key("subscribed")
        writer.bool(confirmed.contains(Self.bytes(id)))
        writer.endObject()
      }
    }
  }

  /// What is not base64 is the id of no channel.
  private static func bytes(_ id: String) -> [UInt8] {
    let text = Array(id.utf8)
    return Base64.decode(text.span) ?? []
  }
}
