import ApusModel
import ApusWire

extension PushRequest {
  /// A broadcast: one notification for every device that is subscribed to a channel.
  ///
  /// It updates or ends Live Activities. Throws for a payload that starts one, because a device subscribes to a channel
  /// only when its activity starts: send the start to each device, with
  /// ``LiveActivityPayload/UpdateSource/channel(_:)``.
  ///
  /// - Parameters:
  ///   - channel: The id of the channel.
  ///   - bundleID: The app's bundle id, without a suffix.
  ///   - payload: The payload. Its priority is sent, or 10 if it has none.
  ///   - expirationSeconds: 0 for one attempt, without storage: the only value for a channel with
  ///     `ChannelStorage.none`. Otherwise the Unix seconds until which the service keeps the broadcast for
  ///     devices that are offline, at most 8 hours.
  public init(
    channel: BroadcastChannel.ID, app bundleID: String, _ payload: LiveActivityPayload,
    expirationSeconds: Int64
  ) throws(PushRequestError) {
    guard !payload.startsActivity else { throw Self.cannotStart }
    self.init(
      channel: channel, app: bundleID, payload: payload.bytes, expirationSeconds: expirationSeconds)
    priority = payload.priority
  }

  /// The same with JSON of your own, at most ``payloadLimitBytes``. Sending it throws if its event is `start`.
  public init(
    channel: BroadcastChannel.ID, app bundleID: String, payload: [UInt8], expirationSeconds: Int64
  ) {
    self.init(token: "", topic: bundleID, pushType: .liveactivity, payload: payload)
    self.channel = channel
    self.expirationSeconds = expirationSeconds
  }

  /// The most bytes of the payload, which depend on the push type, and on whether it is a broadcast.
  public var payloadLimitBytes: Int {
    if channel != nil { return Limits.broadcastPayloadBytes }
    return pushType == .voip ? Limits.voipPayloadBytes : Limits.payloadBytes
  }

  /// What only pushes to devices have, what every broadcast needs, and what it cannot do.
  func checkBroadcast() throws(PushRequestError) {
    let problem: String? =
      if !token.isEmpty {
        "a broadcast has no device token: its channel is its recipient"
      } else if pushType != .liveactivity {
        "the push type is \(pushType.name): a broadcast is for Live Activities "
          + "(\(PushType.liveactivity.name)) only"
      } else if collapseID != nil {
        "a broadcast has no collapse id: a newer one always replaces the one that is stored"
      } else if expirationSeconds == nil {
        "a broadcast needs an expiration: 0 for one attempt, the only value for a channel without "
          + "storage, or a time"
      } else {
        nil
      }
    if let problem { throw PushRequestError(.invalidBroadcast, problem) }
    if startsActivity { throw Self.cannotStart }
  }

  private static var cannotStart: PushRequestError {
    PushRequestError(
      .invalidBroadcast,
      "the event is start: a broadcast cannot start a Live Activity, because devices subscribe to a "
        + "channel when their activity starts. Send the start to each device, with the channel as "
        + "input-push-channel")
  }

  /// Only payloads that contain the word are parsed: parsing costs more than sending.
  private var startsActivity: Bool {
    guard Self.containsStart(payload.span) else { return false }
    return (try? JSONValue(parsing: payload.span))?["aps"]?["event"]?.string == "start"
  }

  private static func containsStart(_ text: Span<UInt8>) -> Bool {
    let word: StaticString = "\"start\""
    let length = word.utf8CodeUnitCount
    var place = 0
    while place + length <= text.count {
      if text[place] == UInt8(ascii: "\""),
        text.extracting(place..<place + length).equals(word)
      {
        return true
      }
      place += 1
    }
    return false
  }
}
