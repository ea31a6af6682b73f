import ApusDevice

/// What the desktop is asked to show of a notification; the arguments of `Notify` in the Desktop Notifications
/// specification.
struct DesktopNote: Sendable, Equatable {
  enum Hint: Sendable, Equatable {
    case text(String)
    case byte(UInt8)
    case truth(Bool)
  }

  var application: String
  var icon: String
  var summary: String
  /// May have several lines.
  var body: String
  /// Ids and labels in turn.
  var actions: [String] = []
  var hints: [(name: String, value: Hint)] = []
  /// The number for the application's icon; nil: unchanged.
  var badge: Int?

  /// Nil if the notification has no text.
  init?(
    _ shown: Presentation, topic: String, rule: ShowRule, hasMarkup: Bool,
    fileExists: (String) -> Bool
  ) {
    let texts = [shown.title, shown.subtitle, shown.body].compactMap { $0 }.filter { !$0.isEmpty }
    guard !texts.isEmpty else { return nil }
    application = rule.application ?? topic
    icon = rule.icon ?? ""
    let title = shown.title.flatMap { $0.isEmpty ? nil : $0 }
    summary = title ?? application
    let lines = [shown.subtitle, shown.body].compactMap { $0 }.filter { !$0.isEmpty }
    body = lines.map { hasMarkup ? Self.escaped($0) : Self.disarmed($0) }.joined(separator: "\n")
    badge = shown.badge
    if rule.onAction != nil {
      actions += ["default", shown.actionTitle ?? ""]
      for action in shown.category.flatMap({ rule.categories[$0] }) ?? [] {
        actions += [action.id, action.label]
      }
    }
    hints = [("urgency", .byte(Self.urgency(shown)))]
    if let desktop = rule.desktop { hints.append(("desktop-entry", .text(desktop))) }
    hints.append(Self.sound(shown.sound, rule, fileExists))
  }

  private static func urgency(_ shown: Presentation) -> UInt8 {
    switch shown.interruptionLevel {
    case .passive: 0
    case .critical: 2
    case .active, .timeSensitive, nil: shown.isCriticalSound ? 2 : 1
    }
  }

  private static func sound(
    _ sound: Presentation.Sound?, _ rule: ShowRule, _ fileExists: (String) -> Bool
  ) -> (String, Hint) {
    switch sound {
    case nil: return ("suppress-sound", .truth(true))
    case .standard: return ("sound-name", .text("message-new-instant"))
    case .named(let name):
      // The name is the provider's: it must not lead out of the folder.
      if let folder = rule.sounds, !name.contains("/"), !name.hasPrefix("."),
        fileExists("\(folder)/\(name)")
      {
        return ("sound-file", .text("\(folder)/\(name)"))
      }
      return ("sound-name", .text("message-new-instant"))
    }
  }

  /// A provider's text is no markup.
  static func escaped(_ text: String) -> String {
    var escaped = ""
    for character in text {
      switch character {
      case "&": escaped += "&amp;"
      case "<": escaped += "&lt;"
      case ">": escaped += "&gt;"
      default: escaped.append(character)
      }
    }
    return escaped
  }

  /// For a server that says that it reads no markup. Some read it all the same, and the others would show an escape.
  static func disarmed(_ text: String) -> String {
    String(text.map { $0 == "<" ? "\u{2039}" : $0 })
  }

  static func == (left: DesktopNote, right: DesktopNote) -> Bool {
    left.application == right.application && left.icon == right.icon
      && left.summary == right.summary && left.body == right.body && left.actions == right.actions
      && left.badge == right.badge
      && left.hints.elementsEqual(right.hints) { $0.name == $1.name && $0.value == $1.value }
  }
}

/// The languages of a user, as the environment names them.
enum Languages {
  /// Names of files to look for, the best first: `de_AT` and `de` for `LANG=de_AT.UTF-8`, and `en` at last.
  static func names(_ environment: (String) -> String?) -> [String] {
    let setting = ["LC_ALL", "LC_MESSAGES", "LANG"].lazy.compactMap(environment)
      .first { !$0.isEmpty }
    let language = (setting ?? "").prefix { $0 != "." && $0 != "@" }
    var names: [String] = []
    if !language.isEmpty, language != "C", language != "POSIX", !language.contains("/") {
      names.append(String(language))
      if let base = language.split(separator: "_").first, base != language {
        names.append(String(base))
      }
    }
    if !names.contains("en") { names.append("en") }
    return names
  }
}
