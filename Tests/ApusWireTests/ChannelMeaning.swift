import ApusModel
import ApusWire

/// The command 0x1d as the flat objects of the vectors, and back.
enum ChannelMeaning {
  // MARK: Reading

  static func of(_ body: [UInt8], toService: Bool) throws -> [String: String] {
    toService
      ? facts(of: try CourierChannelRequest(decoding: body.span))
      : facts(of: try CourierChannelConfirmation(decoding: body.span))
  }

  private static func facts(of request: CourierChannelRequest) -> [String: String] {
    var facts = ["message": "channelRequest", "index": "\(request.index)"]
    facts["token"] = request.token?.hex
    let subscribed = text(request.subscriptions, \.subscribed)
    let unsubscribed = text(request.subscriptions, \.unsubscribed)
    if !subscribed.isEmpty { facts["subscribed"] = subscribed }
    if !unsubscribed.isEmpty { facts["unsubscribed"] = unsubscribed }
    if request.subscriptions.replaces { facts["replaces"] = "1" }
    return facts
  }

  private static func facts(of confirmation: CourierChannelConfirmation) -> [String: String] {
    var facts = [
      "message": "channelConfirmation", "index": "\(confirmation.index)",
      "status": "\(confirmation.status.rawValue)",
    ]
    facts["token"] = confirmation.token?.hex
    facts["subscribed"] = confirmation.subscriptions.map { text($0, \.subscribed) }
    return facts
  }

  /// Channels as `TOPIC/ID`, with `@NANOSECONDS` if the device has broadcasts.
  private static func text(
    _ subscriptions: CourierSubscriptions,
    _ list: KeyPath<CourierChannelTopic, [CourierChannelMark]>
  ) -> String {
    let channels = subscriptions.topics.flatMap { topic in
      topic[keyPath: list].map { mark in
        let name = String(decoding: topic.topic, as: UTF8.self)
        let id = String(decoding: Hex.encode(mark.id.span), as: UTF8.self)
        let time = mark.newestNanoseconds == 0 ? "" : "@\(mark.newestNanoseconds)"
        return "\(name)/\(id)\(time)"
      }
    }
    return channels.joined(separator: " ")
  }

  // MARK: Writing

  /// The subscriptions that `facts` describe: one topic for each that they name.
  static func subscriptions(_ facts: [String: String]) -> CourierSubscriptions {
    var subscriptions = CourierSubscriptions(replaces: facts["replaces"] == "1")
    add(facts["subscribed"], \.subscribed, to: &subscriptions)
    add(facts["unsubscribed"], \.unsubscribed, to: &subscriptions)
    return subscriptions
  }

  private static func add(
    _ text: String?, _ list: WritableKeyPath<CourierChannelTopic, [CourierChannelMark]>,
    to subscriptions: inout CourierSubscriptions
  ) {
    for channel in (text ?? "").split(separator: " ") {
      let parts = channel.split { "/@".contains($0) }
      let mark = CourierChannelMark(
        id: hex(String(parts[1])),
        newestNanoseconds: parts.count > 2 ? UInt64(parts[2]) ?? 0 : 0)
      let name = Array(parts[0].utf8)
      var place = subscriptions.topics.firstIndex { $0.topic == name }
      if place == nil {
        subscriptions.topics.append(CourierChannelTopic(topic: name))
        place = subscriptions.topics.count - 1
      }
      if let place { subscriptions.topics[place][keyPath: list].append(mark) }
    }
  }
}
