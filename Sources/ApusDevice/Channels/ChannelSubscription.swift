import ApusWire

/// A channel that a device is subscribed to: it gets what a provider broadcasts on it.
public struct ChannelSubscription: Sendable, Hashable {
  /// The channel's id in base64, as the service gave it to the provider.
  public var channel: String
  /// The app's topic for Live Activities, such as `com.example.app.push-type.liveactivity`. The device must list it.
  public var topic: String

  public init(to channel: String, of topic: String) {
    self.channel = channel
    self.topic = topic
  }
}

extension ChannelSubscription: CustomStringConvertible {
  public var description: String { "channel \(channel) of \(topic)" }
}

extension ChannelSubscription {
  /// The id's bytes; nil if it is not base64, or empty.
  var id: [UInt8]? {
    guard let bytes = Base64.decode(channel.utf8.span), !bytes.isEmpty else { return nil }
    return bytes
  }
}

/// A change of the subscriptions of a device.
struct ChannelChange: Sendable {
  var subscribed: [ChannelSubscription] = []
  var unsubscribed: [ChannelSubscription] = []
  var replaces = false

  /// - Throws: `DeviceError` for an id that is not base64, and for more than a frame holds.
  func message() throws(DeviceError) -> CourierSubscriptions {
    var message = CourierSubscriptions(replaces: replaces)
    for subscription in subscribed {
      try message.add(subscription, to: \.subscribed)
    }
    for subscription in unsubscribed {
      try message.add(subscription, to: \.unsubscribed)
    }
    guard message.fitsFrame else {
      throw DeviceError(.tooManySubscriptions, "\(message.count) channels do not fit a request")
    }
    return message
  }
}

extension CourierSubscriptions {
  fileprivate mutating func add(
    _ subscription: ChannelSubscription,
    to list: WritableKeyPath<CourierChannelTopic, [CourierChannelMark]>
  ) throws(DeviceError) {
    guard let id = subscription.id else {
      throw DeviceError(.badConfiguration, "\"\(subscription.channel)\" is no channel id: base64")
    }
    let name = Array(subscription.topic.utf8)
    let mark = CourierChannelMark(id: id)
    if let place = topics.firstIndex(where: { $0.topic == name }) {
      topics[place][keyPath: list].append(mark)
    } else {
      var topic = CourierChannelTopic(topic: name)
      topic[keyPath: list].append(mark)
      topics.append(topic)
    }
  }

  /// The channels that are subscribed to.
  var list: [ChannelSubscription] {
    topics.flatMap { topic in
      topic.subscribed.map { mark in
        ChannelSubscription(
          to: String(decoding: Base64.encode(mark.id.span), as: UTF8.self),
          of: String(decoding: topic.topic, as: UTF8.self))
      }
    }
  }
}

extension CourierChannelConfirmation {
  /// Why the change was not applied, or not all of it; nil if it was.
  var error: DeviceError? {
    switch status {
    case .applied: nil
    case .unknownTopic:
      DeviceError(
        .unknownTopic,
        "the service has no such topic, or the device does not list it: its topics "
          + "must have the app's topic for Live Activities")
    case .unknownChannel:
      DeviceError(.unknownChannel, "the app has no such channel in this environment")
    case .tooMany: DeviceError(.tooManySubscriptions, "the device has too many subscriptions")
    case .unavailable:
      DeviceError(.unavailable, "the service could not store the change; try again later")
    default: DeviceError(.refused, "the service refused the change with status \(status.rawValue)")
    }
  }
}
