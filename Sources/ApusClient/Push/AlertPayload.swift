public import ApusModel
import ApusWire

/// The payload of a notification that a person sees, hears, or sees as a badge on an icon.
///
/// Source: Generating a remote notification, tables 1 and 2.
public struct AlertPayload: PushPayload, Hashable {
  /// The title.
  public var title: String?
  /// The line between title and body.
  public var subtitle: String?
  /// The text. ``shortened(toBytes:ending:)`` shortens it to fit.
  public var body: String?
  /// The title in the device's language; the device prefers it to `title`.
  public var localizedTitle: LocalizedText?
  /// The subtitle in the device's language.
  public var localizedSubtitle: LocalizedText?
  /// The body in the device's language.
  public var localizedBody: LocalizedText?
  /// The localization key for the button that opens the app on older systems (`action-loc-key`).
  public var actionKey: String?
  /// The launch image of the app.
  public var launchImage: String?
  /// The number on the app's icon; 0 removes it.
  public var badge: Int?
  /// The sound to play.
  public var sound: PushSound?
  /// The notification's category, which determines its actions.
  public var category: String?
  /// Notifications with the same thread id are shown as a group.
  public var threadID: String?
  /// How much the notification may interrupt.
  public var interruptionLevel: InterruptionLevel?
  /// 0 to 1: the order of the app's notifications in a summary, highest first.
  public var relevanceScore: Double?
  /// The window to bring forward.
  public var targetContentID: String?
  /// The value that the app's Focus filter evaluates.
  public var filterCriteria: String?
  /// For a website's push: the values for `%@` in its address.
  public var urlArguments: [String]?
  /// Also wakes the app.
  public var isContentAvailable = false
  /// Lets the app's notification service extension change the notification before it is shown.
  public var isMutableContent = false
  /// The app's own keys, next to `aps`.
  public var custom: CustomKeys

  /// Set other properties after creation. Properties that are nil are left out of the payload.
  public init(
    title: String? = nil, subtitle: String? = nil, body: String? = nil, badge: Int? = nil,
    sound: PushSound? = nil, category: String? = nil, threadID: String? = nil,
    custom: CustomKeys = CustomKeys()
  ) {
    self.title = title
    self.subtitle = subtitle
    self.body = body
    self.badge = badge
    self.sound = sound
    self.category = category
    self.threadID = threadID
    self.custom = custom
  }

  public var pushType: PushType { .alert }

  public var bytes: [UInt8] {
    var writer = PayloadWriter()
    putAlert(&writer)
    writer.put("badge", badge.map(Int64.init))
    writer.put(sound)
    writer.put("category", category)
    writer.put("thread-id", threadID)
    writer.put("interruption-level", interruptionLevel?.rawValue)
    writer.put("relevance-score", relevanceScore)
    writer.put("target-content-id", targetContentID)
    writer.put("filter-criteria", filterCriteria)
    writer.put("url-args", urlArguments)
    writer.put("content-available", flag: isContentAvailable)
    writer.put("mutable-content", flag: isMutableContent)
    return writer.end(custom)
  }

  private func putAlert(_ writer: inout PayloadWriter) {
    let texts = [title, subtitle, body, actionKey, launchImage]
    let localized = [localizedTitle, localizedSubtitle, localizedBody]
    guard texts.contains(where: { $0 != nil }) || localized.contains(where: { $0 != nil }) else {
      return
    }
    writer.json.key("alert")
    writer.json.beginObject()
    writer.put("title", title)
    writer.put("title-loc-key", localizedTitle?.key)
    writer.put("title-loc-args", localizedTitle?.argumentsIfAny)
    writer.put("subtitle", subtitle)
    writer.put("subtitle-loc-key", localizedSubtitle?.key)
    writer.put("subtitle-loc-args", localizedSubtitle?.argumentsIfAny)
    writer.put("body", body)
    writer.put("loc-key", localizedBody?.key)
    writer.put("loc-args", localizedBody?.argumentsIfAny)
    writer.put("action-loc-key", actionKey)
    writer.put("launch-image", launchImage)
    writer.json.endObject()
  }
}

/// A text that the device looks up in the app's `Localizable.strings`.
///
/// Source: Generating a remote notification, table 2.
public struct LocalizedText: Sendable, Hashable {
  /// The key in the app's file. If the file does not have the key, the device shows the key itself.
  public var key: String
  /// The values for `%@`, or for `%1$@`, `%2$@` and so on.
  public var arguments: [String]

  /// A key and the values for its `%@`, in order.
  public init(_ key: String, _ arguments: String...) { self.init(key: key, arguments: arguments) }

  /// The same with the arguments in an array.
  public init(key: String, arguments: [String]) {
    self.key = key
    self.arguments = arguments
  }

  var argumentsIfAny: [String]? { arguments.isEmpty ? nil : arguments }
}

/// The sound of a notification. A string literal is the name of a file, or `default`.
public enum PushSound: Sendable, Hashable, ExpressibleByStringLiteral {
  /// A sound file of the app. `default`, or a file that does not exist, plays the device's default sound.
  case named(String)
  /// A critical alert, which plays at a volume of 0 to 1 even if the device is muted. Apps need an entitlement from
  /// Apple.
  ///
  /// Source: Generating a remote notification, table 3.
  case critical(name: String = "default", volume: Double = 1)

  public init(stringLiteral name: String) { self = .named(name) }
}

/// How much a notification may interrupt. Source: Generating a remote notification, table 1.
public enum InterruptionLevel: String, Sendable, Hashable, CaseIterable {
  /// Only added to the notification list, without light or sound.
  case passive
  /// The default.
  case active
  /// Shown immediately, even during Focus.
  case timeSensitive = "time-sensitive"
  /// Plays a sound even if the device is muted.
  case critical
}
