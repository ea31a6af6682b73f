public import ApusModel
import ApusWire

/// The payload of a notification that a person sees, hears, or finds as a number on an icon.
///
/// Source: "Generating a remote notification", tables 1 and 2.
public struct AlertPayload: PushPayload, Hashable {
  /// The heading.
  public var title: String?
  /// The line between heading and text.
  public var subtitle: String?
  /// The text. ``shortened(toBytes:ending:)`` makes it fit.
  public var body: String?
  /// The title in the device's language, which the device takes where there is one.
  public var localizedTitle: LocalizedText?
  /// The subtitle in the device's language.
  public var localizedSubtitle: LocalizedText?
  /// The body in the device's language.
  public var localizedBody: LocalizedText?
  /// The key of the title of the button that opens the app, which older systems show (`action-loc-key`).
  public var actionKey: String?
  /// The file that an app shows while it starts.
  public var launchImage: String?
  /// The number on the app's icon; 0 takes it away.
  public var badge: Int?
  /// What is played.
  public var sound: PushSound?
  /// The notification's category, which decides about its actions.
  public var category: String?
  /// Notifications with the same one are shown as a group.
  public var threadID: String?
  /// How much the notification may disturb.
  public var interruptionLevel: InterruptionLevel?
  /// 0 to 1: which of an app's notifications a summary shows first.
  public var relevanceScore: Double?
  /// The window that is brought forward.
  public var targetContentID: String?
  /// What the app's Focus filter looks at.
  public var filterCriteria: String?
  /// For a website's push: what takes the place of `%@` in its address.
  public var urlArguments: [String]?
  /// Wakes the app as well.
  public var isContentAvailable = false
  /// Lets the app's notification service extension change the notification before it is shown.
  public var isMutableContent = false
  /// The app's own keys, beside `aps`.
  public var custom: CustomKeys

  /// What is not in the list is set afterwards. What is nil is left out of the payload.
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
/// "Generating a remote notification", table 2.
public struct LocalizedText: Sendable, Hashable {
  /// The key in the app's file. A key that the file does not have is shown as it is.
  public var key: String
  /// What takes the place of `%@`, or of `%1$@` and its like.
  public var arguments: [String]

  /// A key and what takes the place of its `%@`, one after the other.
  public init(_ key: String, _ arguments: String...) { self.init(key: key, arguments: arguments) }

  /// The same with arguments that are in an array already.
  public init(key: String, arguments: [String]) {
    self.key = key
    self.arguments = arguments
  }

  var argumentsIfAny: [String]? { arguments.isEmpty ? nil : arguments }
}

/// What is played when a notification comes. A literal is the name of a file, or `default`.
public enum PushSound: Sendable, Hashable, ExpressibleByStringLiteral {
  /// A sound file of the app; `default`, or a file that is not there, is the device's own sound.
  case named(String)
  /// A critical alert, which sounds though the device is muted, at a volume of 0 to 1. Apps need Apple's leave for it.
  ///
  /// "Generating a remote notification", table 3.
  case critical(name: String = "default", volume: Double = 1)

  public init(stringLiteral name: String) { self = .named(name) }
}

/// How much a notification may disturb. "Generating a remote notification", table 1.
public enum InterruptionLevel: String, Sendable, Hashable, CaseIterable {
  /// Into the list, without light or sound.
  case passive
  /// The default.
  case active
  /// At once, through Focus as well.
  case timeSensitive = "time-sensitive"
  /// Sounds though the device is muted.
  case critical
}
