import ApusWire

/// The keys that the system reads, and the kinds of their values. "Generating a remote notification", tables 1 to 3,
/// and the pages about push types with keys of their own.
enum LintKeys {
  /// The kinds of JSON value.
  enum Kind: String {
    case string = "a string"
    case number = "a number"
    case bool = "true or false"
    case object = "an object"
    case strings = "an array of strings"
    case other = "null"

    /// Nil for null, which counts as an absent key.
    init?(_ value: JSONValue) {
      switch value {
      case .null: return nil
      case .bool: self = .bool
      case .integer, .number: self = .number
      case .string: self = .string
      case .array(let elements):
        self = elements.allSatisfy { $0.string != nil } ? .strings : .other
      case .object: self = .object
      }
    }
  }

  static let aps: [String: [Kind]] = [
    "alert": [.string, .object], "badge": [.number], "sound": [.string, .object],
    "content-available": [.number], "mutable-content": [.number], "category": [.string],
    "thread-id": [.string], "target-content-id": [.string], "interruption-level": [.string],
    "relevance-score": [.number], "filter-criteria": [.string], "timestamp": [.number],
    "event": [.string], "content-state": [.object], "stale-date": [.number],
    "dismissal-date": [.number], "attributes-type": [.string], "attributes": [.object],
    "input-push-channel": [.string], "input-push-token": [.number], "content-changed": [.bool],
    "ptt-push-type": [.string], "url-args": [.strings],
  ]

  static let alert: [String: [Kind]] = [
    "title": [.string], "subtitle": [.string], "body": [.string], "launch-image": [.string],
    "title-loc-key": [.string], "title-loc-args": [.strings], "subtitle-loc-key": [.string],
    "subtitle-loc-args": [.strings], "loc-key": [.string], "loc-args": [.strings],
    "action-loc-key": [.string], "action": [.string], "summary-arg": [.string],
    "summary-arg-count": [.number],
  ]

  /// Inside the alert of a Live Activity.
  static let liveActivityAlert: [String: [Kind]] = [
    "title": [.string, .object], "body": [.string, .object], "sound": [.string, .object],
  ]

  static let sound: [String: [Kind]] = [
    "critical": [.number], "name": [.string], "volume": [.number],
  ]

  /// Keys of `aps` that are unlikely to be an app's own outside it. Words such as `category` may be.
  static let unmistakable: Set<String> = [
    "alert", "badge", "sound", "content-available", "mutable-content", "thread-id",
    "target-content-id", "interruption-level", "relevance-score", "filter-criteria",
    "content-state", "stale-date", "dismissal-date", "attributes-type", "content-changed",
  ]

  static let liveActivity: Set<String> = [
    "event", "content-state", "stale-date", "dismissal-date", "attributes-type", "attributes",
    "input-push-channel", "input-push-token",
  ]

  /// The key that was probably intended: one that differs only in case, hyphens and underscores.
  static func meant(by key: String, among known: some Sequence<String>) -> String? {
    func plain(_ text: String) -> String {
      text.lowercased().filter { $0 != "-" && $0 != "_" }
    }
    let wanted = plain(key)
    return known.sorted().first { plain($0) == wanted }
  }

  /// Whether a time in seconds is after the year 5000, as a current time in milliseconds would be.
  static func areMilliseconds(_ seconds: Int64) -> Bool { seconds > 95_617_584_000 }
}

extension JSONObject {
  /// The value of a key, unless it is null.
  func present(_ key: String) -> JSONValue? {
    guard let value = self[key], value != .null else { return nil }
    return value
  }

  func has(_ key: String) -> Bool { present(key) != nil }

  /// Whether the value of a key is the number 1.
  func isOne(_ key: String) -> Bool { self[key]?.number == 1 }

  /// Whether the user sees or hears something.
  var isVisible: Bool { has("alert") || has("badge") || has("sound") }
}
