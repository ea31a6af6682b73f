public import ApusModel
import ApusWire

/// Starts, updates or ends a Live Activity.
///
/// `contentState` must encode to JSON that the app's `ContentState` decodes with a default `JSONDecoder`. Times are
/// Unix seconds; of two pushes, the one with the later timestamp counts. Source: Starting and updating Live Activities
/// with ActivityKit push notifications.
public struct LiveActivityPayload: PushPayload, Hashable {
  /// How later updates reach a started activity.
  public enum UpdateSource: Sendable, Hashable {
    /// With a token of its own, which the app sends to its server.
    case token
    /// Over the channel with this id, the `text` of a ``BroadcastChannel/ID``.
    case channel(String)
  }

  private enum Event: Hashable {
    case start(attributesType: String, attributes: EncodedValue, source: UpdateSource?)
    case update
    case end(dismissalSeconds: Int64?)
  }

  private let event: Event
  private let contentState: EncodedValue?
  /// The time of the content. The device ignores a push that is older than the last one.
  public var timestampSeconds: Int64
  /// An additional alert; required for a start.
  public var alert: LiveActivityAlert?
  /// When the content becomes outdated.
  public var staleSeconds: Int64?
  /// The order of several activities: the highest score is shown first.
  public var relevanceScore: Double?
  /// The app's own keys, next to `aps`.
  public var custom = CustomKeys()
  /// Priority 10 counts against the activity budget, 5 does not. Nil: 10, the service's default.
  public var priority: Priority?

  private init(_ event: Event, _ contentState: EncodedValue?, timestampSeconds: Int64) {
    self.event = event
    self.contentState = contentState
    self.timestampSeconds = timestampSeconds
  }

  /// Starts an activity. Requires a push-to-start token and an alert.
  ///
  /// - Parameters:
  ///   - attributesType: The name of the app's attributes type.
  ///   - attributes: The values of that type, which stay the same while the activity runs.
  ///   - contentState: The initial state.
  ///   - alert: The alert for the person.
  ///   - timestampSeconds: The current time in Unix seconds.
  ///   - source: How later updates reach the activity.
  public static func start(
    attributesType: String, attributes: some Encodable, contentState: some Encodable,
    alert: LiveActivityAlert, timestampSeconds: Int64, updatedBy source: UpdateSource? = nil
  ) throws(PushRequestError) -> LiveActivityPayload {
    let event = Event.start(
      attributesType: attributesType, attributes: try object("attributes", attributes),
      source: source)
    var payload = LiveActivityPayload(
      event, try object("contentState", contentState), timestampSeconds: timestampSeconds)
    payload.alert = alert
    return payload
  }

  /// Updates an activity. Requires the activity's own token, which can change while the activity runs.
  ///
  /// - Parameters:
  ///   - contentState: The new state.
  ///   - timestampSeconds: The current time in Unix seconds.
  public static func update(
    contentState: some Encodable, timestampSeconds: Int64
  ) throws(PushRequestError) -> LiveActivityPayload {
    LiveActivityPayload(
      .update, try object("contentState", contentState), timestampSeconds: timestampSeconds)
  }

  /// Ends an activity with a final state.
  ///
  /// - Parameters:
  ///   - contentState: The final state.
  ///   - timestampSeconds: The current time in Unix seconds.
  ///   - dismissalSeconds: When the activity disappears from the screen, within four hours; a time in the past means
  ///     immediately. Nil: when the person dismisses it, or after four hours.
  public static func end(
    contentState: some Encodable, timestampSeconds: Int64, dismissalSeconds: Int64? = nil
  ) throws(PushRequestError) -> LiveActivityPayload {
    LiveActivityPayload(
      .end(dismissalSeconds: dismissalSeconds), try object("contentState", contentState),
      timestampSeconds: timestampSeconds)
  }

  /// Ends an activity and keeps its last state.
  public static func end(
    timestampSeconds: Int64, dismissalSeconds: Int64? = nil
  ) -> LiveActivityPayload {
    LiveActivityPayload(
      .end(dismissalSeconds: dismissalSeconds), nil, timestampSeconds: timestampSeconds)
  }

  private static func object(
    _ name: String, _ value: some Encodable
  ) throws(PushRequestError) -> EncodedValue {
    let encoded = try EncodedValue(encoding: value)
    guard case .object = encoded else {
      throw PushRequestError(
        .invalidPayload, "\(name) must encode as an object: pass the app's structure")
    }
    return encoded
  }

  public var pushType: PushType { .liveactivity }

  var startsActivity: Bool { if case .start = event { true } else { false } }

  public var bytes: [UInt8] {
    var writer = PayloadWriter()
    writer.put("timestamp", timestampSeconds)
    switch event {
    case .start(let type, let attributes, let source):
      writer.put("event", "start")
      writer.put("attributes-type", type)
      writer.put("attributes", attributes)
      switch source {
      case nil: break
      case .token?: writer.put("input-push-token", flag: true)
      case .channel(let id)?: writer.put("input-push-channel", id)
      }
    case .update: writer.put("event", "update")
    case .end(let dismissalSeconds):
      writer.put("event", "end")
      writer.put("dismissal-date", dismissalSeconds)
    }
    writer.put("content-state", contentState)
    writer.put("stale-date", staleSeconds)
    writer.put("relevance-score", relevanceScore)
    alert?.write(to: &writer)
    return writer.end(custom)
  }
}

/// The alert of a Live Activity push. Same source.
public struct LiveActivityAlert: Sendable, Hashable {
  /// The title.
  public var title: String?
  /// The text.
  public var body: String?
  /// Used instead of `title`.
  public var localizedTitle: LocalizedText?
  /// Used instead of `body`.
  public var localizedBody: LocalizedText?
  /// The sound to play.
  public var sound: PushSound?

  public init(title: String? = nil, body: String? = nil, sound: PushSound? = nil) {
    self.title = title
    self.body = body
    self.sound = sound
  }

  /// Unlike in other pushes, the keys of a localised text are inside `title` and `body`, and `sound` is inside the
  /// alert.
  fileprivate func write(to writer: inout PayloadWriter) {
    writer.json.key("alert")
    writer.json.beginObject()
    Self.put("title", title, localizedTitle, &writer)
    Self.put("body", body, localizedBody, &writer)
    writer.put(sound)
    writer.json.endObject()
  }

  private static func put(
    _ name: String, _ text: String?, _ localized: LocalizedText?, _ writer: inout PayloadWriter
  ) {
    guard let localized else { return writer.put(name, text) }
    writer.json.key(name)
    writer.json.beginObject()
    writer.put("loc-key", localized.key)
    writer.put("loc-args", localized.argumentsIfAny)
    writer.json.endObject()
  }
}
