import ApusCommand
import ApusModel
import ApusWire

/// The channels that `apus listen` subscribes to.
struct ListenedChannels {
  /// The app's topic for Live Activities.
  let topic: String
  /// In base64.
  let ids: [String]

  /// - Parameter topics: Those that the device registers, which must be of one app.
  init?(_ invocation: Invocation, topics: [String]) throws(CommandFailure) {
    let ids = invocation.all(ApusOptions.listenedChannels)
    guard !ids.isEmpty else { return nil }
    guard ids.count <= Limits.subscriptionsPerDevice else {
      throw invocation.failure(
        about: ApusOptions.listenedChannels,
        "a device can subscribe to at most \(Limits.subscriptionsPerDevice) channels")
    }
    let apps = Set(
      topics.map { topic in
        String(topic.dropLast(TopicSuffix(of: topic.utf8.span).text.utf8CodeUnitCount))
      })
    guard let app = apps.first, apps.count == 1 else {
      throw invocation.failure(
        about: ApusOptions.listenedChannels, "channels are of one app, and there are \(apps.count)")
    }
    topic = app + TopicSuffix.liveActivity.text.description
    self.ids = ids
  }

  /// Ends all other subscriptions.
  var request: CourierSubscriptions {
    let marks = ids.map { CourierChannelMark(id: Base64.decode($0.utf8.span) ?? []) }
    return CourierSubscriptions(
      topics: [CourierChannelTopic(topic: Array(topic.utf8), subscribed: marks)], replaces: true)
  }

  /// Throws unless the service has applied the whole request.
  func check(_ confirmation: CourierChannelConfirmation) throws(CommandFailure) {
    let topics = confirmation.subscriptions?.topics ?? []
    let applied = Set(topics.flatMap(\.subscribed).map(\.id))
    let missing = ids.first { !applied.contains(Base64.decode($0.utf8.span) ?? []) } ?? "a channel"
    switch confirmation.status {
    case .applied: return
    case .unknownTopic:
      throw CommandFailure(
        .failed, "the service has no app of the topic \(topic)",
        remedy: "Is it an app of the service?")
    case .unknownChannel:
      throw CommandFailure(
        .failed, "the app has no channel \(missing) in this environment",
        remedy: "`apus channel list` shows its channels.")
    case .unavailable:
      throw CommandFailure(
        .unavailable, "the service could not store the subscriptions", remedy: "Try again later.")
    default:
      throw CommandFailure(
        .failed,
        "the service does not subscribe the device to \(missing): status "
          + "\(confirmation.status.rawValue)")
    }
  }

  /// An id as providers have it.
  static func text(_ id: Span<UInt8>) -> String {
    String(decoding: Base64.encode(id), as: UTF8.self)
  }
}
