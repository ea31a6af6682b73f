public import ApusModel
import ApusWire

/// Starts, updates or ends a Live Activity.
///
/// "Starting and updating Live Activities with ActivityKit push notifications". `contentState` must be what the app's
/// `ContentState` decodes to with a `JSONDecoder` without settings. Times are Unix seconds; of two pushes the one with
/// the newer timestamp counts.
public struct LiveActivityPayload: PushPayload, Hashable {
  /// How a started activity is updated later.
  public enum UpdateSource: Sendable, Hashable {
    /// By a token of its own, which the app sends to its server.
    case token
    /// By the channel of that id.
    case channel(String)
  }

  private enum Event: Hashable {
    case start(attributesType: String, attributes: EncodedValue, source: UpdateSource?)
    case update
    case end(dismissalSeconds: Int64?)
  }

  private let event: Event
  private let contentState: EncodedValue?
  /// When the content is of. The device ignores a push that is older than the last one.
  public var timestampSeconds: Int64
  /// What a person is told besides; a start must have it.
  public var alert: LiveActivityAlert?
  /// When what is shown is out of date.
  public var staleSeconds: Int64?
  /// Which of several activities is shown first: the one with the highest.
  public var relevanceScore: Double?
  /// The app's own keys, beside `aps`.
  public var custom = CustomKeys()
  /// 5 does not count against the budget of activities, 10 does. Nil: 10, the service's default.
  public var priority: Priority?

  private init(_ event: Event, _ contentState: EncodedValue?, timestampSeconds: Int64) {
    self.event = event
    self.contentState = contentState
    self.timestampSeconds = timestampSeconds
  }

  /// Starts an activity. It goes to a push-to-start token, and must have an alert.
  ///
  /// - Parameters:
  ///   - attributesType: The name of the app's type of attributes.
  ///   - attributes: What that type decodes from: what stays the same while the activity runs.
  ///   - contentState: What is shown at first.
  ///   - alert: What a person is told.
  ///   - timestampSeconds: Unix seconds of now.
  ///   - source: How the activity is updated later.
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

  /// Shows something new. It goes to the activity's own token, which changes while the activity runs.
  ///
  /// - Parameters:
  ///   - contentState: What is shown from now on.
  ///   - timestampSeconds: Unix seconds of now.
  public static func update(
    contentState: some Encodable, timestampSeconds: Int64
  ) throws(PushRequestError) -> LiveActivityPayload {
    LiveActivityPayload(
      .update, try object("contentState", contentState), timestampSeconds: timestampSeconds)
  }

  /// Ends an activity, with a last state.
  ///
  /// - Parameters:
  ///   - contentState: What is shown in the end.
  ///   - timestampSeconds: Unix seconds of now.
  ///   - dismissalSeconds: When it goes from the screen: within four hours; a time in the past is at once. Nil: when
  ///     the person takes it away, or after four hours.
  public static func end(
    contentState: some Encodable, timestampSeconds: Int64, dismissalSeconds: Int64? = nil
  ) throws(PushRequestError) -> LiveActivityPayload {
    LiveActivityPayload(
      .end(dismissalSeconds: dismissalSeconds), try object("contentState", contentState),
      timestampSeconds: timestampSeconds)
  }

  /// Ends an activity and leaves what it shows.
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
        .invalidPayload, "\(name) must encode as an object: give the app's structure")
    }
    return encoded
  }

  public var pushType: PushType { .liveactivity }

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

/// What a person sees of a Live Activity's push besides the activity. The same page.
public struct LiveActivityAlert: Sendable, Hashable {
  /// The heading.
  public var title: String?
  /// The text.
  public var body: String?
  /// In the place of `title`.
  public var localizedTitle: LocalizedText?
  /// In the place of `body`.
  public var localizedBody: LocalizedText?
  /// What is played.
  public var sound: PushSound?

  public init(title: String? = nil, body: String? = nil, sound: PushSound? = nil) {
    self.title = title
    self.body = body
    self.sound = sound
  }

  /// Unlike in other pushes the keys of a localised text stand inside the text's own, and the sound inside the alert.
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
