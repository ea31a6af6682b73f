import ApusWire

/// What a phone would show of a notification, and do with it.
///
/// Keys and their meaning: Generating a remote notification. Values of the wrong type and unknown keys are ignored.
public struct Presentation: Sendable, Hashable {
  public enum Sound: Sendable, Hashable {
    /// The system's default sound.
    case standard
    /// A sound file of the app.
    case named(String)

    init(name: String) { self = name == "default" ? .standard : .named(name) }
  }

  public enum InterruptionLevel: String, Sendable, Hashable, CaseIterable {
    case passive
    case active
    case timeSensitive = "time-sensitive"
    case critical
  }

  public var title: String?
  public var subtitle: String?
  public var body: String?
  /// The title of the button that opens the app; nil for the system's. From Apple's older documents (`action-loc-key`),
  /// and still used by old providers.
  public var actionTitle: String?
  /// The launch image of the app (`launch-image`).
  public var launchImage: String?
  /// The number on the app's icon; 0 removes it, nil leaves it unchanged.
  public var badge: Int?
  public var sound: Sound?
  /// Whether the sound plays even if the device is muted.
  public var isCriticalSound = false
  /// From 0 to 1, for a critical sound.
  public var soundVolume: Double?
  /// The category, which determines the actions.
  public var category: String?
  /// The thread id by which notifications are grouped.
  public var thread: String?
  /// Nil if the payload does not say; the system then uses `active`.
  public var interruptionLevel: InterruptionLevel?
  public var relevanceScore: Double?
  public var targetContentID: String?
  /// Whether the app is woken.
  public var wakesApp = false
  /// Whether the app may change the notification before it is shown.
  public var isMutable = false

  /// Whether the notification shows nothing, plays nothing and changes no badge.
  public var isSilent: Bool { !hasText && badge == nil && sound == nil }

  private var hasText: Bool { [title, subtitle, body].contains { $0?.isEmpty == false } }

  /// Reads a payload.
  ///
  /// - Parameters:
  ///   - payload: The JSON text.
  ///   - strings: The app's `Localizable.strings` in the user's language.
  ///
  /// - Returns: Nil if the payload is not a JSON object. One without `aps` is silent.
  public init?(payload: Span<UInt8>, strings: [String: String] = [:]) {
    guard let value = try? JSONValue(parsing: payload), let object = value.object else {
      return nil
    }
    guard let aps = object["aps"]?.object else { return }
    readAlert(aps["alert"], strings)
    readSound(aps["sound"] ?? aps["alert"]?["sound"])
    badge = aps["badge"]?.integer.flatMap(Int.init(exactly:)).flatMap { $0 >= 0 ? $0 : nil }
    category = aps["category"]?.string
    thread = aps["thread-id"]?.string
    interruptionLevel = aps["interruption-level"]?.string.flatMap(InterruptionLevel.init)
    relevanceScore = aps["relevance-score"]?.number
    targetContentID = aps["target-content-id"]?.string
    wakesApp = aps["content-available"]?.integer == 1
    isMutable = aps["mutable-content"]?.integer == 1
  }

  /// Like `init(payload:strings:)`, for a payload in an array.
  public init?(payload: [UInt8], strings: [String: String] = [:]) {
    self.init(payload: payload.span, strings: strings)
  }

  private mutating func readAlert(_ alert: JSONValue?, _ strings: [String: String]) {
    switch alert {
    case .string(let text): body = text
    case .object(let alert):
      title = Self.text(alert, "title", key: "title-loc-key", arguments: "title-loc-args", strings)
      subtitle = Self.text(
        alert, "subtitle", key: "subtitle-loc-key", arguments: "subtitle-loc-args", strings)
      body = Self.text(alert, "body", key: "loc-key", arguments: "loc-args", strings)
      actionTitle = alert["action-loc-key"]?.string.map {
        LocalizedFormat.text(key: $0, arguments: [], strings: strings)
      }
      launchImage = alert["launch-image"]?.string
    default: break
    }
  }

  /// A text of an alert: localized if it has a key, else literal. A Live Activity has key and arguments in a nested
  /// object.
  private static func text(
    _ alert: JSONObject, _ name: String, key: String, arguments: String, _ strings: [String: String]
  ) -> String? {
    if let key = alert[key]?.string {
      return LocalizedFormat.text(
        key: key, arguments: texts(alert[arguments]), strings: strings)
    }
    if let nested = alert[name]?.object, let key = nested["loc-key"]?.string {
      return LocalizedFormat.text(
        key: key, arguments: texts(nested["loc-args"]), strings: strings)
    }
    return alert[name]?.string
  }

  private static func texts(_ arguments: JSONValue?) -> [String] {
    // A value that is not a string keeps its position, so that the later ones keep their numbers.
    (arguments?.array ?? []).map { $0.string ?? "" }
  }

  private mutating func readSound(_ value: JSONValue?) {
    switch value {
    case .string(let name): sound = Sound(name: name)
    case .object(let object):
      sound = Sound(name: object["name"]?.string ?? "default")
      isCriticalSound = object["critical"]?.integer == 1
      soundVolume = object["volume"]?.number.map { min(max($0, 0), 1) }
    default: break
    }
  }
}
